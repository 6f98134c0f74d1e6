"""Profiles: which target, which corpus, which sizes. A profile never holds a criterion.

The models below are the schema of `config/profiles/*.yaml`; unknown keys are errors.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError
from pydantic import model_validator as validator

from diffdraft import files
from diffdraft.errors import UserError

Fraction = Annotated[float, Field(gt=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0)]


class Settings(BaseModel):
    """Frozen, and strict about unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusSettings(Settings):
    """A text file inside an installed package, pinned, and how its documents are dealt out."""

    package: str
    file: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    vocab_size: Annotated[int, Field(gt=257)]
    seed: int
    splits: dict[Literal["train", "dev", "extract", "prompts"], Fraction]

    @validator(mode="after")
    def splits_cover_all(self) -> Self:
        """The four splits share out every document."""
        if len(self.splits) != 4 or abs(sum(self.splits.values()) - 1) > 1e-9:
            raise ValueError("splits must be train, dev, extract and prompts and sum to 1")
        return self


class OptimiserSettings(Settings):
    """AdamW with linear warm-up; `schedule` says what the rate does after it."""

    steps: PositiveInt
    batch_size: PositiveInt
    window: PositiveInt
    learning_rate: PositiveFloat
    warmup_steps: PositiveInt
    schedule: Literal["constant", "cosine"]
    weight_decay: NonNegative
    betas: tuple[Fraction, Fraction]
    bias_correction: bool
    clip_norm: PositiveFloat
    checkpoint_every: PositiveInt
    seed: int


class Architecture(Settings):
    """Text settings of a Qwen3.5 model, by the names of its config.json."""

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    vocab_size: PositiveInt
    linear_num_key_heads: PositiveInt
    linear_num_value_heads: PositiveInt
    linear_key_head_dim: PositiveInt
    linear_value_head_dim: PositiveInt
    linear_conv_kernel_dim: PositiveInt
    full_attention_interval: PositiveInt
    max_position_embeddings: PositiveInt
    rms_norm_eps: PositiveFloat
    tie_word_embeddings: bool
    rope_parameters: dict[str, str | float]


class TargetSettings(Settings):
    """A target that the pipeline trains itself, from scratch."""

    architecture: Architecture
    init_std: PositiveFloat
    optimiser: OptimiserSettings


class LossWeights(Settings):
    """Weights of total variation (raw L1) and reverse KL."""

    tv: NonNegative
    kl: NonNegative


class ContinuationSettings(Settings):
    """How many training windows the target writes itself, and after how many prompt tokens."""

    windows: PositiveInt
    prompt_tokens: PositiveInt


class AdapterSettings(Settings):
    """One drafter adapter: its shape, where it sits, and how it is trained."""

    block_size: Annotated[int, Field(ge=2)]
    rank: PositiveInt
    alpha: PositiveFloat
    init_std: PositiveFloat
    placement: tuple[Literal["attention", "mlp", "delta_net"], ...]
    layout: Literal["suffix", "every_block"]
    corruption: Literal["uniform", "full"]
    continuations: ContinuationSettings | None
    loss: LossWeights
    optimiser: OptimiserSettings


class Profile(Settings):
    """Everything that a profile fixes."""

    name: str
    description: str
    corpus: CorpusSettings
    target: TargetSettings
    adapters: dict[Literal["primary", "replication"], AdapterSettings]


def load_profile(path: str | Path) -> Profile:
    """Read and check a profile; every defect is a `UserError` that names the field."""
    try:
        return Profile.model_validate(yaml.safe_load(files.read_text(path)))
    except yaml.YAMLError as error:
        raise UserError(path, "file", str(error), "YAML") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "file"
        raise UserError(path, field, repr(first["input"])[:80], first["msg"]) from None
