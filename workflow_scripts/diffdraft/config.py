"""Profiles: which target, which corpus, which sizes. A profile never holds a criterion.

The models below are the schema of `config/profiles/*.yaml`; unknown keys are errors.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import Discriminator, Field, PositiveFloat, PositiveInt
from pydantic import Tag as Branch
from pydantic import model_validator as validator

from diffdraft import files
from diffdraft.config_adapters import AnyAdapter, Fraction, OptimiserSettings, has_key
from diffdraft.config_hub import (
    HubArchitecture,
    HubCorpus,
    HubTarget,
    Sha256,
    Split,
    check_all_splits,
)
from diffdraft.errors import UserError
from diffdraft.prereg.criteria import Strict
from diffdraft.prereg.reading import fit, parse_yaml, refuse

Tag = Literal["primary", "replication"]
TAGS: tuple[Tag, ...] = get_args(Tag)


class CorpusSettings(Strict):
    """A text file inside an installed package, pinned, and how its documents are dealt out."""

    package: str
    file: str
    sha256: Sha256
    vocab_size: Annotated[int, Field(gt=257)]
    seed: int
    splits: dict[Split, Fraction]

    @validator(mode="after")
    def splits_cover_all(self) -> Self:
        """The four splits share out every document."""
        check_all_splits(self.splits)
        total = sum(self.splits.values())
        if abs(total - 1) > 1e-9:
            raise refuse("splits", f"a sum of {total:g}", "a sum of 1")
        return self


class SampleSize(Strict):
    """`documents` of `tokens` tokens each; after the first `sampled` ones greedy text follows."""

    documents: PositiveInt
    tokens: Annotated[int, Field(gt=1)]
    sampled: PositiveInt

    @validator(mode="after")
    def sampled_fits(self) -> Self:
        """Not more tokens are sampled than there are."""
        if self.sampled > self.tokens:
            raise refuse("sampled", self.sampled, f"at most tokens, {self.tokens}")
        return self


class SampledCorpus(Strict):
    """Text that the pretrained target writes itself.

    A document begins with the beginning-of-text token and one of the `openings`, dealt out in turn;
    the target goes on, sampling at temperature 1 and then greedily (`SampleSize`). Splits are drawn
    apart: no text is in two of them, though openings are.
    """

    openings: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    splits: dict[Split, SampleSize]
    seed: int

    @validator(mode="after")
    def splits_are_there(self) -> Self:
        """All four of them."""
        check_all_splits(self.splits)
        return self


class Architecture(HubArchitecture):
    """All text settings of a Qwen3.5 model, by the names of its config.json."""

    max_position_embeddings: PositiveInt
    rms_norm_eps: PositiveFloat
    rope_parameters: dict[str, str | float]


class TargetSettings(Strict):
    """A target that the pipeline trains itself, from scratch."""

    architecture: Architecture
    init_std: PositiveFloat
    optimiser: OptimiserSettings


class Chunk(Strict):
    """A file inside an installed package that holds one part of a larger file."""

    package: str
    file: str


class PackagedTarget(Strict):
    """A pretrained target that installed packages carry as one GGUF file, cut into chunks."""

    chunks: Annotated[tuple[Chunk, ...], Field(strict=False, min_length=1)]
    sha256: Sha256
    licence: str


def _target_kind(value: Any) -> str:
    if has_key(value, "chunks"):
        return "packaged"
    return "hub" if has_key(value, "repo") else "trained"


def _corpus_kind(value: Any) -> str:
    if has_key(value, "openings"):
        return "sampled"
    return "hub" if has_key(value, "dataset") else "embedded"


AnyTarget = Annotated[
    Annotated[TargetSettings, Branch("<trained>")]
    | Annotated[PackagedTarget, Branch("<packaged>")]
    | Annotated[HubTarget, Branch("<hub>")],
    Discriminator(lambda value: f"<{_target_kind(value)}>"),
]
AnyCorpus = Annotated[
    Annotated[CorpusSettings, Branch("<embedded>")]
    | Annotated[SampledCorpus, Branch("<sampled>")]
    | Annotated[HubCorpus, Branch("<hub>")],
    Discriminator(lambda value: f"<{_corpus_kind(value)}>"),
]


class Profile(Strict):
    """Everything that a profile fixes."""

    name: str
    description: str
    corpus: AnyCorpus
    target: AnyTarget
    adapters: dict[Tag, AnyAdapter]

    @property
    def target_kind(self) -> str:
        """Where the target comes from: `trained` here, `packaged`, or from the `hub`."""
        return _target_kind(self.target)

    @property
    def corpus_kind(self) -> str:
        """Where the text comes from: `embedded` in a package, `sampled`, or from the `hub`."""
        return _corpus_kind(self.corpus)

    @validator(mode="after")
    def every_adapter(self) -> Self:
        """Studies need both: one measures, the other says whether it was by chance."""
        if missing := [tag for tag in TAGS if tag not in self.adapters]:
            raise refuse("adapters", f"no {missing[0]}", " and ".join(TAGS))
        return self

    @validator(mode="after")
    def one_vocabulary(self) -> Self:
        """The tokenizer's ids are the rows of the target's embedding, each of them."""
        if not isinstance(self.target, TargetSettings):
            return self
        if not isinstance(self.corpus, CorpusSettings):
            raise refuse("corpus", self.corpus_kind, "embedded text, for a target trained here")
        ids, rows = self.corpus.vocab_size, self.target.architecture.vocab_size
        if ids != rows:
            raise refuse("corpus.vocab_size", ids, f"target.architecture.vocab_size, {rows}")
        return self


SAID: dict[type, str] = {
    CorpusSettings: "a text inside a package",
    SampledCorpus: "text that the target samples",
    HubCorpus: "a data set of the hub",
    TargetSettings: "a target that is trained here",
    PackagedTarget: "a target inside packages",
    HubTarget: "a target of the hub",
}
S = TypeVar(
    "S", CorpusSettings, SampledCorpus, HubCorpus, TargetSettings, PackagedTarget, HubTarget
)


def of_kind(kind: type[S], value: Any, field: str) -> S:
    """A profile's target or corpus, if it is of this kind. Raises `UserError` for another."""
    if not isinstance(value, kind):
        raise UserError("profile", field, SAID[type(value)], SAID[kind])
    return value


def load_profile(path: str | Path) -> Profile:
    """Read and check a profile; every defect is a `UserError` that names the field."""
    path = Path(path)
    profile = fit(Profile, parse_yaml(files.read_text(path).encode(), path), path)
    if profile.name != path.stem:
        raise UserError(path, "name", repr(profile.name), f"{path.stem!r}, as the file is called")
    return profile
