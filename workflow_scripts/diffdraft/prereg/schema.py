"""What a plan must say: the pydantic models behind `prereg/STUDY.yaml` and `schema.json`.

Every threshold that decides anything is a `bound` in a plan. Unknown keys are errors.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    Discriminator,
    Field,
    FiniteFloat,
    PositiveInt,
    PrivateAttr,
    StringConstraints,
    Tag,
    model_validator,
)

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.criteria import Criterion, Name, Otherwise, Rule, Strict, Text, VerdictRule
from diffdraft.prereg.ledger import Digest, frozen_entry
from diffdraft.prereg.reading import fit, parse_yaml, refuse

Scope = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]+$")]
Constant = bool | int | FiniteFloat | str
AnalysisValue = Constant | list[Constant] | dict[str, Constant | list[Constant]]


class Hypothesis(Strict):
    id: Text
    claim: Text
    falsified_by: Text


class Arm(Strict):
    """One side of the comparison; `trained_block_size` where it is an adapter of its own."""

    id: Text
    description: Text
    trained_block_size: PositiveInt | None = None


class Decision(Strict):
    """A choice that could have been made otherwise, and why it was made this way."""

    choice: Text
    reason: Text


class WindowSample(Strict):
    """A sample of text windows, `windows` of them in each stratum."""

    windows: PositiveInt
    window_tokens: PositiveInt
    block_size: PositiveInt
    batches: PositiveInt
    batch_size: PositiveInt
    strata: list[Text] = Field(min_length=1)

    @model_validator(mode="after")
    def _sizes_agree(self) -> "WindowSample":
        if self.windows != self.batches * self.batch_size:
            raise refuse("windows", self.windows, "batches x batch_size")
        return self


class PromptSample(Strict):
    """A sample of prompts, each decoded by both arms in `abba_blocks` blocks of A B B A.

    A row is busy when the load just before it, as a share of all cores, is above
    `max_load_before`. `workload_sha256`, of the file's bytes, pins the prompts.
    """

    prompts: PositiveInt
    categories: PositiveInt
    tokens: PositiveInt
    block_size: PositiveInt
    abba_blocks: PositiveInt
    max_load_before: FiniteFloat = Field(gt=0)
    workload_sha256: Digest | None = None

    @model_validator(mode="after")
    def _categories_are_equal(self) -> "PromptSample":
        if self.prompts % self.categories:
            raise refuse("prompts", self.prompts, "a multiple of `categories`")
        return self


class WidthPolicies(Strict):
    """Constants of the adaptive arms: entropies in nats, blocks in rows, decays in (0, 1).

    `value_*` is the expected-value policy. The confidence-driven arm drafts `confidence_block`
    rows and verifies the prefix whose product of top-1 probabilities is `confidence_floor` at
    least.
    """

    allowed: list[PositiveInt] = Field(min_length=1)
    default: PositiveInt
    entropy_low: FiniteFloat = Field(ge=0)
    entropy_high: FiniteFloat = Field(gt=0)
    survival_decay: FiniteFloat = Field(gt=0, lt=1)
    survival_start: FiniteFloat = Field(ge=0)
    value_decay: FiniteFloat = Field(gt=0, lt=1)
    value_min_samples: PositiveInt
    value_explore_every: PositiveInt
    confidence_block: PositiveInt
    confidence_floor: FiniteFloat = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _choices_are_ordered(self) -> "WidthPolicies":
        if self.allowed != sorted(set(self.allowed)):
            raise refuse("allowed", self.allowed, "block sizes in rising order, each once")
        if self.default not in self.allowed:
            raise refuse("default", self.default, f"one of the allowed {self.allowed}")
        if self.entropy_low > self.entropy_high:
            raise refuse("entropy_low", self.entropy_low, "at most entropy_high")
        return self


class ContextSample(Strict):
    """`passages` passages, each continued for `tokens` tokens after every context length.

    The contexts of a passage end at the same token, so that length is all they differ in.
    """

    lengths: list[PositiveInt] = Field(min_length=1)
    passages: PositiveInt
    tokens: PositiveInt
    block_sizes: list[PositiveInt] = Field(min_length=1)


class CostSample(Strict):
    """Forwards of 1 to `widths` rows on a cache of `context` tokens, each timed `repeats` times."""

    widths: PositiveInt
    context: PositiveInt
    repeats: PositiveInt


class DecodingSample(Strict):
    """A sample of generations: prompts, lengths, and the sizes of every arm of Act IV-S."""

    prompts: PositiveInt
    categories: PositiveInt
    tokens: PositiveInt
    repeats: PositiveInt
    warmup: PositiveInt
    token_counts: list[PositiveInt] = Field(min_length=1)
    block_size: PositiveInt
    block_sizes: list[PositiveInt] = Field(min_length=1)
    refinements: list[PositiveInt] = Field(min_length=1)
    ngram_orders: list[PositiveInt] = Field(min_length=1)
    policies: WidthPolicies
    context: ContextSample
    cost: CostSample
    max_load_before: FiniteFloat = Field(gt=0)
    workload_sha256: Digest | None = None


def _sample_kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else vars(value) if hasattr(value, "__dict__") else ()
    if "prompts" not in keys:
        return "windows"
    return "decoding" if "token_counts" in keys else "prompts"


# Folders of results/PROFILE and results that hold no rows, so that no study, no profile has them.
RESERVED_STUDIES, RESERVED_PROFILES = ("adapters",), ("published",)

SAID: dict[type, str] = {
    WindowSample: "a sample of windows",
    PromptSample: "a sample of prompts",
    DecodingSample: "a sample of generations",
}
S = TypeVar("S", WindowSample, PromptSample, DecodingSample)
Sample = Annotated[
    Annotated[WindowSample, Tag("windows")]
    | Annotated[PromptSample, Tag("prompts")]
    | Annotated[DecodingSample, Tag("decoding")],
    Discriminator(_sample_kind),
]


class PlannedModel(Strict):
    """Which target a profile uses; a measurement must have the revision and fingerprint given.

    A target that the pipeline trains has neither beforehand: its manifest records them, and
    `profile_sha256` (`diffdraft.profile_digest`) pins how it and its adapters are trained.
    """

    target: Text
    revision: Text | None = None
    fingerprint: Text | None = None
    profile_sha256: Digest | None = None


class Outcome(Strict):
    """A metric that the analysis computes by this name."""

    metric: Name
    meaning: Text


class Scopes(Strict):
    """Every scope is judged and reported; the one that carries gives the study its verdict."""

    carries: Scope
    reported: list[Scope] = Field(default_factory=list)

    def names(self) -> list[str]:
        return [self.carries, *self.reported]


class Stop(Strict):
    """`stage` does not run unless the carried verdict is one of `unless`."""

    stage: Name
    unless: list[Text] = Field(min_length=1)


class Exploratory(Strict):
    """Measured and shown, never part of a criterion."""

    measure: Name
    reason: Text


class Plan(Strict):
    """A pre-registered study. `parse_plan` and `load_plan` also set `sha256` of the bytes."""

    study: Name
    title: Text
    question: Text
    hypotheses: list[Hypothesis] = Field(min_length=1)
    arms: list[Arm] = Field(min_length=1)
    axis: Text
    decisions: list[Decision]
    samples: dict[Name, Sample] = Field(min_length=1)
    seeds: dict[Name, int]
    models: dict[Name, PlannedModel] = Field(min_length=1)
    outcomes: list[Outcome] = Field(min_length=1)
    exclusions: list[Text]
    analysis: dict[Name, AnalysisValue]
    scopes: Scopes
    criteria: list[Criterion] = Field(min_length=1)
    verdicts: list[VerdictRule] = Field(min_length=1)
    stops: Stop | None = None
    does_not_show: list[Text] = Field(min_length=1)
    exploratory: list[Exploratory] = Field(default_factory=list)

    _sha256: str = PrivateAttr(default="")

    @property
    def sha256(self) -> str:
        """SHA-256 of the plan's bytes; empty for a plan that did not come from bytes."""
        return self._sha256

    def sample_of(self, kind: type[S], profile: str, file: object) -> S:
        """The sample of a profile. Raises `UserError` if there is none of this kind."""
        sample = self.samples.get(profile)
        if not isinstance(sample, kind):
            found = "nothing" if sample is None else SAID[type(sample)]
            raise UserError(file, f"samples.{profile}", found, SAID[kind])
        return sample

    def rules(self) -> list[Rule]:
        """The verdict rules in order, without the closing `otherwise`."""
        return [rule for rule in self.verdicts if isinstance(rule, Rule)]

    def verdict_strings(self) -> list[str]:
        return [
            rule.verdict if isinstance(rule, Rule) else rule.otherwise for rule in self.verdicts
        ]

    @model_validator(mode="after")
    def _verdicts_end_with_otherwise(self) -> "Plan":
        *earlier, last = self.verdicts
        if not isinstance(last, Otherwise):
            raise refuse("verdicts", "no `otherwise` at the end", "a last entry `otherwise`")
        if any(isinstance(rule, Otherwise) for rule in earlier):
            raise refuse("verdicts", "an `otherwise` before the end", "only a last one")
        return self

    @model_validator(mode="after")
    def _names_are_free(self) -> "Plan":
        if self.study in RESERVED_STUDIES:
            raise refuse("study", self.study, "another name: results/PROFILE has such a folder")
        for profile in self.samples:
            if profile in RESERVED_PROFILES:
                raise refuse("samples", profile, "another name: results has such a folder")
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Plan":
        lists = {
            "hypotheses": [h.id for h in self.hypotheses],
            "arms": [arm.id for arm in self.arms],
            "outcomes": [outcome.metric for outcome in self.outcomes],
            "criteria": [criterion.id for criterion in self.criteria],
            "scopes": self.scopes.names(),
            "exploratory": [entry.measure for entry in self.exploratory],
        }
        for field, names in lists.items():
            for name in names:
                if names.count(name) > 1:
                    raise refuse(field, f"{name} twice", "unique names")
        return self

    @model_validator(mode="after")
    def _references_exist(self) -> "Plan":
        criteria = {criterion.id for criterion in self.criteria}
        for name in (name for rule in self.rules() for name in rule.when.ids()):
            if name not in criteria:
                raise refuse("verdicts", name, "ids listed under criteria")
        for verdict in self.stops.unless if self.stops else []:
            if verdict not in self.verdict_strings():
                raise refuse("stops.unless", verdict, "verdicts of this plan")
        if set(self.samples) != set(self.models):
            raise refuse("models", sorted(self.models), "the same profiles as under samples")
        return self

    @model_validator(mode="after")
    def _criteria_use_declared_metrics(self) -> "Plan":
        metrics = {outcome.metric for outcome in self.outcomes}
        exploratory = {entry.measure for entry in self.exploratory}
        for criterion in self.criteria:
            for leaf in criterion.passes_when.leaves():
                field = f"criteria.{criterion.id}"
                if leaf.metric in exploratory:
                    raise refuse(field, leaf.metric, "no exploratory measure")
                if leaf.metric not in metrics:
                    raise refuse(field, f"metric {leaf.metric}", "a metric listed under outcomes")
        return self


@lru_cache(maxsize=16)
def parse_plan(data: bytes, file: str) -> Plan:
    """Read a plan from its bytes; `file` is named in errors.

    Plans do not change, so one that was read before is returned again: an audit asks often.
    """
    plan = fit(Plan, parse_yaml(data, file), file)
    plan._sha256 = files.sha256_bytes(data)
    return plan


def load_plan(path: str | Path) -> Plan:
    """Read a plan file, a draft or a frozen one.

    Raises `UserError` on anything the schema does not allow, and for a frozen plan whose bytes
    have changed since.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a plan")
    plan = parse_plan(path.read_bytes(), str(path))
    if plan.study != path.stem:
        raise UserError(path, "study", repr(plan.study), f"the file's name, {path.stem!r}")
    frozen_entry(path)
    return plan


def export() -> dict[str, Any]:
    """The plan schema as JSON Schema, as committed in `prereg/schema.json`."""
    return Plan.model_json_schema()
