"""RPRM stage 0: what must hold before a position is measured, as checks that run.

Each check establishes one fact that the original's audit established in prose: what the adapters
are, what the known predictor is, that the new variable is not it under another name, and that no
window can be on two sides. It trains nothing and computes no statistic of uncertainty against
acceptance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from diffdraft import files
from diffdraft.config import Profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, read_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.measure.positions import Passes, full_logits, measures, run_passes
from diffdraft.measure.windows import WindowBatch, WindowPlan, planned_windows
from diffdraft.prereg.schema import Plan
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.targets.load import Target, load_target
from diffdraft.training.drafter import ADAPTER_FILE


@dataclass(frozen=True)
class Check:
    """One fact: what it says, what was found, what was expected."""

    id: str
    says: str
    found: Any
    expected: Any

    @property
    def holds(self) -> bool:
        """Whether what was found is what was expected."""
        return bool(self.found == self.expected)


@dataclass
class Subject:
    """Everything that stage 0 looks at, loaded once."""

    profile: Profile
    corpus: Path
    target_folder: Path
    adapter_folders: dict[str, Path]
    windows: WindowPlan
    target: Target
    adapter: Adapter
    trained: dict[str, dict[str, mx.array]]
    batch: WindowBatch


def run_stage0(
    profile: Profile,
    plan: Plan,
    corpus: Path,
    target_folder: Path,
    adapter_folders: list[Path],
    out: Path,
) -> None:
    """Run all checks and write them; raises `UserError` at the first that does not hold."""
    subject = load_subject(profile, plan, corpus, target_folder, adapter_folders)
    checks = [check for group in GROUPS for check in group(subject)]
    for check in checks:
        if not check.holds:
            raise UserError(f"stage 0: {check.id}", check.says, check.found, check.expected)
    subject.target.check_unchanged()
    adapters = {
        f"{tag}_sha256": files.sha256_file(folder / ADAPTER_FILE)
        for tag, folder in subject.adapter_folders.items()
    }
    record = {
        "subject": {"target_fingerprint": subject.target.fingerprint, **adapters},
        "checks": [{**vars(check), "holds": check.holds} for check in checks],
    }
    files.write_json(out, record)


def load_subject(
    profile: Profile, plan: Plan, corpus: Path, target_folder: Path, adapter_folders: list[Path]
) -> Subject:
    """Load target, both adapters on one set of modules, and the first batch of windows."""
    target = load_target(target_folder)
    windows = planned_windows(plan, profile.name, corpus, target.noise_high)
    folders = {folder.name: folder for folder in adapter_folders}
    first = next(iter(folders.values())) / ADAPTER_FILE
    adapter = load_adapter(target.model, target.fingerprint, first)
    adapter.zero()
    trained = {tag: read_adapter(folder / ADAPTER_FILE)[0] for tag, folder in folders.items()}
    return Subject(
        profile,
        corpus,
        target_folder,
        folders,
        windows,
        target,
        adapter,
        trained,
        windows.batch(0),
    )


def full_stratum(subject: Subject, batch: WindowBatch) -> Passes:
    """The three passes of the stratum FULL with the adapter as it now is."""
    seed_row = subject.windows.seed_row
    full = full_logits(subject.adapter, batch, seed_row)
    return run_passes(subject.adapter, batch, "FULL", seed_row, full)


def target_checks(subject: Subject) -> Iterator[Check]:
    """What the frozen model is."""
    recorded = files.read_json(subject.target_folder / "training.json")["fingerprint"]
    yield Check("target", "its weights are those written", subject.target.fingerprint, recorded)
    yield Check(
        "target.adapted",
        "an attached adapter leaves the fingerprint as it is",
        fingerprint(subject.adapter.model),
        subject.target.fingerprint,
    )


def adapter_checks(subject: Subject) -> Iterator[Check]:
    """What the two adapters are, and that they differ by the declared axis."""
    for tag, folder in subject.adapter_folders.items():
        metadata = read_adapter(folder / ADAPTER_FILE)[1]
        settings = next(s for name, s in subject.profile.adapters.items() if name == tag)
        found = {name: metadata[name] for name in ("arm", "block_size", "step", "seed")}
        expected = {
            "arm": tag,
            "block_size": str(settings.block_size),
            "step": str(settings.optimiser.steps),
            "seed": str(settings.optimiser.seed),
        }
        yield Check(f"adapter.{tag}", "it is the one that the profile describes", found, expected)
        yield Check(
            f"adapter.{tag}.target",
            "it was trained on this target",
            metadata["target_fingerprint"],
            subject.target.fingerprint,
        )


def drafting_checks(subject: Subject) -> Iterator[Check]:
    """Single-shot drafting: what a draft row can and cannot see."""
    batch = subject.batch
    bare = full_stratum(subject, batch)
    yield Check(
        "drafting.untrained",
        "an adapter with B = 0 changes no bit of the draft rows",
        bool(mx.array_equal(bare.student, bare.corrupt).item()),
        True,
    )
    subject.adapter.assign(next(iter(subject.trained.values())))
    drafted = full_stratum(subject, batch)
    yield Check(
        "drafting.seed",
        "at the seed row the drafter is the frozen model: agreement is total",
        bool(drafted.seed_agreement.all().item()),
        True,
    )
    yield Check(
        "drafting.blind",
        "with full corruption the drafter cannot see the tokens it drafts: "
        "other true tokens give the same proposals, bit for bit",
        bool(mx.array_equal(_with_other_truth(subject).student, drafted.student).item()),
        True,
    )
    yield Check(
        "drafting.causal",
        "a row does not depend on later noise",
        bool(mx.allclose(_with_other_last_noise(subject)[:, :-1], drafted.student[:, :-1]).item()),
        True,
    )


def predictor_checks(subject: Subject) -> Iterator[Check]:
    """The known predictor is a property of the frozen model, and no use while decoding."""
    batch = subject.batch
    gaps, own, teacher = [], [], []
    for tensors in subject.trained.values():
        subject.adapter.assign(tensors)
        columns = measures(full_stratum(subject, batch))
        gaps.append(columns["existing_draftability_score"])
        own.append(columns["entropy"])
        teacher.append(columns["teacher_entropy"])
    yield Check("predictor.gap", "the gap is the same for every adapter", _all_equal(gaps), True)
    yield Check(
        "predictor.teacher",
        "the teacher's entropy is the same for every adapter",
        _all_equal(teacher),
        True,
    )
    yield Check(
        "predictor.own", "the drafter's entropy differs between adapters", _all_equal(own), False
    )
    yield Check(
        "predictor.renamed",
        "the drafter's entropy is not the teacher's under another name",
        bool(np.allclose(own[0], teacher[0])),
        False,
    )
    full = full_stratum(subject, batch).full
    yield Check(
        "predictor.decode_time",
        "the gap needs the tokens that are being drafted: with other ones P_full changes",
        bool(mx.allclose(_with_other_truth(subject).full[:, 1:], full[:, 1:]).item()),
        False,
    )
    yield Check(
        "predictor.range",
        "the gap is an unhalved L1 distance, in [0, 2]",
        bool((min(map(np.min, gaps)) >= 0) and (max(map(np.max, gaps)) <= 2)),
        True,
    )


def data_checks(subject: Subject) -> Iterator[Check]:
    """No document in two splits, no window drawn twice, noise ids in their range."""
    splits = files.read_json(subject.corpus / "corpus.json")["splits"]
    documents = [index for split in splits.values() for index in split["documents"]]
    yield Check("data.splits", "no document is in two splits", len(documents), len(set(documents)))
    drawn = np.concatenate(
        [np.array(subject.windows.batch(i).windows_BW) for i in subject.windows.indices()]
    )
    yield Check("data.windows", "windows are drawn once", len(np.unique(drawn, axis=0)), len(drawn))
    noise = np.array(subject.batch.noise["FULL"].ids)
    yield Check(
        "data.noise",
        "noise ids are in [1, H)",
        bool(noise.min() >= 1 and noise.max() < subject.target.noise_high),
        True,
    )
    rate = np.array(subject.batch.noise["SCHEDULE"].rate)
    yield Check(
        "data.rate",
        "SCHEDULE has a corruption rate a window, in [0, 1); FULL corrupts every row",
        bool(rate.min() >= 0 and rate.max() < 1)
        and bool(np.array(subject.batch.noise["FULL"].level).all()),
        True,
    )


GROUPS: tuple[Callable[[Subject], Iterator[Check]], ...] = (
    target_checks,
    adapter_checks,
    drafting_checks,
    predictor_checks,
    data_checks,
)


def _all_equal(arrays: list[np.ndarray]) -> bool:
    return all(np.array_equal(arrays[0], other) for other in arrays[1:])


def _with_other_truth(subject: Subject) -> Passes:
    """The passes with the drafted tokens of each window replaced by those of its neighbour."""
    windows, seed_row = subject.batch.windows_BW, subject.windows.seed_row
    truth = windows[:, seed_row + 1 :]
    neighbour = mx.concatenate([truth[-1:], truth[:-1]])
    other = mx.concatenate([windows[:, : seed_row + 1], neighbour], axis=1)
    batch = WindowBatch(other, subject.batch.noise)
    return full_stratum(subject, batch)


def _with_other_last_noise(subject: Subject) -> mx.array:
    """Student logits of all draft rows with another noise id in the last one."""
    batch = subject.batch
    ids = batch.noise["FULL"].ids
    last = ids[:, -1:] % (subject.target.noise_high - 1) + 1
    changed = batch.noise["FULL"]._replace(ids=mx.concatenate([ids[:, :-1], last], axis=1))
    moved = WindowBatch(batch.windows_BW, {"FULL": changed})
    return full_stratum(subject, moved).student
