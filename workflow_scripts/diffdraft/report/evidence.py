"""Everything a report shows, of all studies."""

from dataclasses import dataclass

from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.inputs import Json, Published, Rprm, Timing


@dataclass(frozen=True)
class Evidence:
    """The studies of one evidence root, and the published ones put through the same engine.

    `readings` is what the published figures of Act IV-S give under each way to read them.
    """

    profile: str
    kind: str
    rprm: Rprm
    timing: Timing
    act4s: Act4s
    published: Published
    readings: Json

    @property
    def studies(self) -> tuple[Rprm, Timing, Act4s]:
        """All studies, in the order shown."""
        return self.rprm, self.timing, self.act4s
