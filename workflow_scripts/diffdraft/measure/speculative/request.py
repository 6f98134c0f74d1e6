"""What one run is made of, wherever it comes from: a plan or the command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffdraft import files, provenance
from diffdraft.code_digest import code_digest
from diffdraft.measure.speculative.passages import passages_sha256
from diffdraft.measure.speculative.protocol import Protocol
from diffdraft.measure.speculative.seeds import DecodingSeeds
from diffdraft.prereg.schema import DecodingSample
from diffdraft.studies.act4s.design import RunDesign
from diffdraft.target_record import recorded_revision


@dataclass(frozen=True)
class Request:
    """What one run is made of.

    `adapter` is None for an untrained one of rank `rank`; `shuffled` and `corpus` are needed by
    the runs `controls` and `context` only. `origin` is what else the pieces depend on (plan,
    profile, all seeds of the plan), and goes into the meta file. `prefix` begins the names of all
    files.
    """

    name: str
    design: RunDesign
    sample: DecodingSample
    seeds: DecodingSeeds
    script: Path
    workload: Path
    target: Path
    adapter: Path | None
    out_dir: Path
    work: Path
    loop_ngram: int
    ulp_tolerance: float
    prefix: str = ""
    rank: int = 0
    shuffled: Path | None = None
    corpus: Path | None = None
    cost_ms: Mapping[int, float] = field(default_factory=dict)
    plan: Path | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)

    def protocol(self) -> Protocol:
        """How the prompts of this run are timed."""
        sample = self.sample
        return Protocol(
            self.design.repeats,
            sample.warmup,
            sample.max_load_before,
            self.seeds.arm_order,
            self.loop_ngram,
        )

    def identity(self, fingerprint: str) -> dict[str, Any]:
        """All that a finished prompt depends on."""
        return {
            "run": self.name,
            "arms": list(self.design.arms),
            "workload_sha256": files.sha256_file(self.workload),
            "target_fingerprint": fingerprint,
            "target_revision": recorded_revision(self.target),
            "adapter_sha256": sha256_or_none(self.adapter),
            "shuffled_adapter_sha256": sha256_or_none(self.shuffled),
            "corpus_sha256": passages_sha256(self.corpus) if self.corpus else None,
            "cost_ms": {str(size): ms for size, ms in self.cost_ms.items()},
            "samples": self.sample.model_dump(),
            "lengths": list(self.design.max_tokens),
            "repeats": self.design.repeats,
            "rank": self.rank,
            "loop_ngram": self.loop_ngram,
            "seeds": self.seeds.model_dump(),
            "code": code_digest(self.script),
            "packages": provenance.package_versions(),
            **self.origin,
        }


def sha256_or_none(file: Path | None) -> str | None:
    """Digest of a file where there is one."""
    return None if file is None else files.sha256_file(file)
