"""Profile settings of a target and a text that come from the hub, and types that profiles share."""

from collections.abc import Collection
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic import model_validator as validator

from diffdraft.prereg.criteria import Strict
from diffdraft.prereg.reading import refuse

Split = Literal["train", "dev", "extract", "prompts"]
Revision = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
BYTES = {"float32": 4, "bfloat16": 2}


def check_all_splits(names: Collection[str]) -> None:
    """Refuse splits, inside a validator, unless all four are there."""
    if sorted(names) != sorted(get_args(Split)):
        raise refuse("splits", ", ".join(names), ", ".join(get_args(Split)))


class PartSettings(Strict):
    """The first windows of one part of a data set, at most so many."""

    part: str
    windows: PositiveInt


class HubCorpus(Strict):
    """A data set of the hub, pinned by revision, tokenised by the target's tokenizer.

    Rows whose text has fewer than `min_characters` without the blanks around it are left out; each
    of the others is followed by the end-of-text token. Splits are the first windows of `window`
    tokens of a part of the data set, and may overlap, as published.
    """

    dataset: str
    configuration: str
    revision: Revision
    min_characters: PositiveInt
    window: PositiveInt
    splits: dict[Split, PartSettings]

    @validator(mode="after")
    def splits_cover_all(self) -> Self:
        """All four splits are there."""
        check_all_splits(self.splits)
        return self


class HubArchitecture(Strict):
    """The sizes of a Qwen3.5 model that fix its weights, by the names of its config.json."""

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
    tie_word_embeddings: bool


class PublishedDrafter(Strict):
    """The adapter file that was released for a target, and what its authors say of it."""

    file: str
    bytes: PositiveInt
    sha256: Sha256
    licence: str


class PublishedRates(Strict):
    """How fast and how large the published runs were: what estimates of a run rest on."""

    machine: str
    native_tokens_per_second: PositiveFloat
    drafted_tokens_per_second: PositiveFloat
    training_seconds_per_step: PositiveFloat
    extraction_seconds: PositiveFloat
    peak_bytes: PositiveInt


class HubTarget(Strict):
    """A pretrained target of the hub, pinned by revision.

    `tensors` and `parameters` are those of its text model, all that is ever loaded.
    """

    repo: str
    revision: Revision
    dtype: Literal["float32", "bfloat16"]
    architecture: HubArchitecture
    tensors: PositiveInt
    parameters: PositiveInt
    drafter: PublishedDrafter
    published: PublishedRates

    @property
    def weight_bytes(self) -> int:
        """Bytes of the text model's weights in the pinned dtype."""
        return self.parameters * BYTES[self.dtype]
