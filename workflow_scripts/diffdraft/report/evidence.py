"""Everything a report shows: one or more studies, each with the published ones beside it."""

from dataclasses import dataclass

from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.inputs import Json, Published, Rprm, Timing


@dataclass(frozen=True)
class RprmEvidence:
    """Study `rprm`, and its published figures put through the same engine."""

    study: Rprm
    published: Published


@dataclass(frozen=True)
class Act4sEvidence:
    """Study `act4s`, and what the published figures give under each way to read them."""

    study: Act4s
    readings: Json


@dataclass(frozen=True)
class Evidence:
    """The studies of one evidence root that a page is about."""

    profile: str
    kind: str
    rprm: RprmEvidence | None = None
    timing: Timing | None = None
    act4s: Act4sEvidence | None = None

    @property
    def studies(self) -> list[Rprm | Timing | Act4s]:
        """The studies that are there, in the order shown."""
        found = [
            self.rprm.study if self.rprm else None,
            self.timing,
            self.act4s.study if self.act4s else None,
        ]
        return [study for study in found if study is not None]
