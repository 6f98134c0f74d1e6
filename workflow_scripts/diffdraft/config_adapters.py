"""Profiles: how drafter adapters, and targets that are trained here, are trained."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, PositiveFloat, PositiveInt
from pydantic import Tag as Branch
from pydantic import model_validator as validator

from diffdraft.prereg.criteria import Strict
from diffdraft.prereg.reading import refuse

Part = Literal["attention", "mlp", "delta_net"]
Fraction = Annotated[float, Field(gt=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0)]
# YAML has lists only.
Betas = Annotated[tuple[Fraction, Fraction], Field(strict=False)]
Placement = Annotated[tuple[Part, ...], Field(strict=False, min_length=1)]


def has_key(value: Any, key: str) -> bool:
    """Whether a value, as read from YAML or as a model, has a key."""
    return key in value if isinstance(value, dict) else hasattr(value, key)


class OptimiserSettings(Strict):
    """AdamW with linear warm-up; `schedule` says what the rate does after it."""

    steps: PositiveInt
    batch_size: PositiveInt
    window: PositiveInt
    learning_rate: PositiveFloat
    warmup_steps: PositiveInt
    schedule: Literal["constant", "cosine"]
    weight_decay: NonNegative
    betas: Betas
    bias_correction: bool
    clip_norm: PositiveFloat
    checkpoint_every: PositiveInt
    seed: int


class LossWeights(Strict):
    """Weights of total variation (raw L1) and reverse KL."""

    tv: NonNegative
    kl: NonNegative

    @validator(mode="after")
    def something_counts(self) -> Self:
        """Not all weights are 0."""
        if not (self.tv or self.kl):
            raise refuse("tv, kl", "0, 0", "a weight above 0")
        return self


class TopTokenLoss(Strict):
    """Weights of raw L1 and forward KL; the teacher's `top_tokens` count singly."""

    top_tokens: PositiveInt
    tv: NonNegative
    forward_kl: NonNegative

    @validator(mode="after")
    def something_counts(self) -> Self:
        """Not all weights are 0."""
        if not (self.tv or self.forward_kl):
            raise refuse("tv, forward_kl", "0, 0", "a weight above 0")
        return self


def _loss_kind(value: Any) -> str:
    return "<top>" if has_key(value, "top_tokens") else "<whole>"


AnyLoss = Annotated[
    Annotated[LossWeights, Branch("<whole>")] | Annotated[TopTokenLoss, Branch("<top>")],
    Discriminator(_loss_kind),
]


class ContinuationSettings(Strict):
    """How many training windows the target writes itself, and after how many prompt tokens."""

    windows: PositiveInt
    prompt_tokens: PositiveInt


class AdapterSettings(Strict):
    """One drafter adapter: its shape, where it sits, and how it is trained."""

    block_size: Annotated[int, Field(ge=2)]
    rank: PositiveInt
    alpha: PositiveFloat
    init_std: PositiveFloat
    placement: Placement
    layout: Literal["suffix", "every_block"]
    corruption: Literal["uniform", "full"]
    continuations: ContinuationSettings | None
    loss: AnyLoss
    optimiser: OptimiserSettings

    @validator(mode="after")
    def continuations_have_room(self) -> Self:
        """A prompt as long as the window would leave the target nothing to write."""
        window = self.optimiser.window
        if self.continuations and self.continuations.prompt_tokens >= window:
            found = self.continuations.prompt_tokens
            raise refuse("continuations.prompt_tokens", found, f"less than the window of {window}")
        return self

    @validator(mode="after")
    def blocks_fit_the_window(self) -> Self:
        """Every block size has its rows in a window, and tiles it where every block is trained."""
        window = self.optimiser.window
        for field, size in self.block_sizes().items():
            if window < size + 2:
                raise refuse(field, size, f"at most the window of {window} less 2")
            if self.layout == "every_block" and window % size:
                raise refuse(field, size, f"a divisor of the window, {window}, or layout suffix")
        return self

    def block_sizes(self) -> dict[str, int]:
        """The block sizes that are trained, by the names of their keys."""
        return {"block_size": self.block_size}

    def block_size_at(self, step: int) -> int:
        """Block size that a step trains, counted from 0."""
        return self.block_size


class StagedAdapterSettings(AdapterSettings):
    """An adapter whose first steps train blocks of another size than the last ones.

    (As the published drafter: block size 4 for four fifths of its steps, then 8.)
    """

    first_block_size: Annotated[int, Field(ge=2)]
    first_steps: PositiveInt

    @validator(mode="after")
    def both_stages_train(self) -> Self:
        """There are steps left for the second stage."""
        if self.first_steps >= self.optimiser.steps:
            found = f"less than optimiser.steps, {self.optimiser.steps}"
            raise refuse("first_steps", self.first_steps, found)
        if self.first_block_size == self.block_size:
            raise refuse("first_block_size", self.first_block_size, "another than block_size")
        return self

    def block_sizes(self) -> dict[str, int]:
        """The block sizes that are trained, by the names of their keys."""
        return {"first_block_size": self.first_block_size, **super().block_sizes()}

    def block_size_at(self, step: int) -> int:
        """Block size that a step trains, counted from 0."""
        return self.first_block_size if step < self.first_steps else self.block_size


AnyAdapter = Annotated[
    Annotated[AdapterSettings, Branch("<plain>")]
    | Annotated[StagedAdapterSettings, Branch("<staged>")],
    Discriminator(lambda value: "<staged>" if has_key(value, "first_steps") else "<plain>"),
]
