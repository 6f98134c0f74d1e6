"""The checks of RPRM stage 0, in groups; `stage0` says what they are for and runs them.

Each group looks at one subject: target, adapters, the axis they differ on, drafting, the known
predictor, acceptance, data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from diffdraft.config import Profile
from diffdraft.layers.adapter_file import read_adapter
from diffdraft.layers.chunked import chunked_logits
from diffdraft.layers.lora import Adapter
from diffdraft.measure.positions import Passes, full_logits, measures, run_passes
from diffdraft.measure.shared_text import shared_text
from diffdraft.measure.windows import WindowBatch, WindowPlan
from diffdraft.target_record import recorded_fingerprint
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.targets.load import Target
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


def full_stratum(subject: Subject, batch: WindowBatch) -> Passes:
    """The three passes of the stratum FULL with the adapter as it now is."""
    seed_row = subject.windows.seed_row
    full = full_logits(subject.adapter, batch, seed_row)
    return run_passes(subject.adapter, batch, "FULL", seed_row, full)


def target_checks(subject: Subject) -> Iterator[Check]:
    """What the frozen model is."""
    recorded = recorded_fingerprint(subject.target_folder)
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


def axis_checks(subject: Subject) -> Iterator[Check]:
    """The arms differ by block size and what follows from it, and by nothing else."""
    shapes, schedules = [], []
    for settings in subject.profile.adapters.values():
        varying = {"block_size", "first_block_size", "first_steps", "optimiser"}
        shapes.append(settings.model_dump(exclude=varying))
        schedules.append(settings.optimiser.model_dump(exclude={"seed", "steps"}))
    yield Check(
        "axis.adapters",
        "the adapters have the same rank, placement, corruption, loss and training text",
        all(shape == shapes[0] for shape in shapes),
        True,
    )
    yield Check(
        "axis.optimiser",
        "they are trained alike but for steps and seed",
        all(schedule == schedules[0] for schedule in schedules),
        True,
    )


def acceptance_checks(subject: Subject) -> Iterator[Check]:
    """Acceptance while decoding is agreement at every slot up to there, and nothing more."""
    batch, seed_row = subject.batch, subject.windows.seed_row
    drafted = full_stratum(subject, batch)
    proposals = mx.argmax(drafted.student, axis=-1)
    agrees = np.array(proposals == mx.argmax(drafted.full, axis=-1))
    # The target's own view when the drafted tokens stand in its context, as a verifier sees them.
    first = mx.argmax(full_logits(subject.adapter, batch, seed_row)[:, 0], axis=-1)[:, None]
    verified_ids = mx.concatenate([batch.windows_BW[:, : seed_row + 1], first, proposals], axis=1)
    verified = chunked_logits(subject.adapter.model, verified_ids, seed_row + 1)[:, :-1]
    accepts = np.array(proposals == mx.argmax(verified, axis=-1))
    clean = np.array(batch.windows_BW[:, seed_row + 1 :])
    shown = np.concatenate([np.array(first), np.array(proposals)], axis=1)[:, :-1]
    same_context = np.cumprod(shown == clean[:, : shown.shape[1]], axis=1).astype(bool)
    yield Check(
        "acceptance.prefix",
        "where the drafted tokens are the true ones, the verifier accepts what agreement says",
        bool(np.array_equal(agrees[same_context], accepts[same_context])),
        True,
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
    schedule_noise = {"FULL": batch.noise["SCHEDULE"]}
    scheduled = full_stratum(subject, WindowBatch(batch.windows_BW, schedule_noise))
    yield Check(
        "drafting.seed_schedule",
        "so it is where some rows hold true tokens",
        bool(scheduled.seed_agreement.all().item()),
        True,
    )
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
    drawn = np.concatenate(
        [np.array(subject.windows.batch(i).windows_BW) for i in subject.windows.indices()]
    )
    yield Check("data.splits", *shared_text(subject.corpus, drawn), 0)
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
    axis_checks,
    drafting_checks,
    predictor_checks,
    acceptance_checks,
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
