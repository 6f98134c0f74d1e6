"""What a study takes from its plan: the `analysis` and `seeds` mappings, made typed."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from diffdraft.errors import UserError


def _ordered(pair: tuple[float, float]) -> tuple[float, float]:
    if not 0 <= pair[0] < pair[1] <= 100:
        raise ValueError("two percentiles in [0, 100], the lower one first")
    return pair


Percentiles = Annotated[tuple[float, float], AfterValidator(_ordered)]
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


class Settings(BaseModel):
    """A block of a plan; it cannot change once read, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def from_plan(cls, file: object, block: str, mapping: Mapping[str, Any]) -> Self:
        """Validate one mapping of a plan; the first defect is a `UserError` naming its key."""
        try:
            return cls.model_validate(dict(mapping))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join([block, *(str(part) for part in first["loc"])])
            found = "nothing" if first["type"] == "missing" else repr(first["input"])
            raise UserError(file, field, found, first["msg"]) from None


class Seeds(Settings):
    """Seeds of an analysis. The plan lists those of its measurement in the same mapping."""

    model_config = ConfigDict(frozen=True, extra="ignore")
