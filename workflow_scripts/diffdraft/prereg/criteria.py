"""Criteria and verdict rules: conditions over named metrics, and rules over their outcomes."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    StringConstraints,
    Tag,
    model_validator,
)

from diffdraft.prereg.reading import refuse

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Statistic = Literal["value", "ci_low", "ci_high"]
Operator = Literal[">", ">=", "<", "<=", "=="]


class Strict(BaseModel):
    """Unknown keys and silent conversions are refused; values do not change after reading."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Leaf(Strict):
    """`metric.statistic operator bound`."""

    metric: Name
    statistic: Statistic = "value"
    operator: Operator
    bound: FiniteFloat

    def leaves(self) -> Iterator["Leaf"]:
        yield self


class AllOf(Strict):
    all: list["Condition"] = Field(min_length=1)

    def leaves(self) -> Iterator[Leaf]:
        for condition in self.all:
            yield from condition.leaves()


class AnyOf(Strict):
    any: list["Condition"] = Field(min_length=1)

    def leaves(self) -> Iterator[Leaf]:
        for condition in self.any:
            yield from condition.leaves()


def _condition_kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else type(value).model_fields
    return next((kind for kind in ("all", "any") if kind in keys), "leaf")


Condition = Annotated[
    Annotated[Leaf, Tag("leaf")] | Annotated[AllOf, Tag("all")] | Annotated[AnyOf, Tag("any")],
    Discriminator(_condition_kind),
]


class Criterion(Strict):
    id: Name
    claim: Text
    passes_when: Condition


class When(Strict):
    """Holds if every id in `all`, at least one in `any` and none in `none` passed."""

    all: list[Name] = []
    any: list[Name] = []
    none: list[Name] = []

    @model_validator(mode="after")
    def _says_something(self) -> "When":
        if not self.ids():
            raise refuse("when", "no criterion", "criterion ids under all, any or none")
        return self

    def ids(self) -> list[str]:
        return [*self.all, *self.any, *self.none]


class Rule(Strict):
    when: When
    verdict: Text


class Otherwise(Strict):
    otherwise: Text


def _rule_kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else type(value).model_fields
    return "otherwise" if "otherwise" in keys else "rule"


VerdictRule = Annotated[
    Annotated[Rule, Tag("rule")] | Annotated[Otherwise, Tag("otherwise")],
    Discriminator(_rule_kind),
]
