"""The measurement of the study `rprm`: from a plan to one adapter's position table."""

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from diffdraft import files, provenance, rows
from diffdraft.code_digest import code_digest
from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, read_adapter
from diffdraft.measure.planned import check_adapter, check_profile, check_target
from diffdraft.measure.positions import Row, batch_rows
from diffdraft.measure.shards import Shards
from diffdraft.measure.windows import WindowPlan, planned_windows
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.targets.load import load_target

SCRIPT = Path(__file__).parents[2] / "extract_positions.py"
STAGE0_SUBJECT = ("target_fingerprint", "plan_sha256", "student_ids_sha256")
BATCHES_PER_PIECE = 16  # a kill loses at most so many batches


def extract(
    profile_file: Path,
    plan_file: Path,
    tag: str,
    corpus: Path,
    target_folder: Path,
    adapter_file: Path,
    stage0_file: Path,
    out: Path,
    meta_file: Path,
    work: Path,
) -> None:
    """Measure every planned window with the adapter `tag`; pieces in `work` are not made again.

    Raises `UserError` when stage 0 was passed for anything else, when profile or adapter are not
    those of the plan, and for a corpus that does not fit.
    """
    profile, plan = load_profile(profile_file), load_amended_plan(plan_file)
    profile_sha256 = check_profile(plan, profile, profile_file)
    revision = check_target(plan, profile.name, target_folder)
    target = load_target(target_folder)
    adapter = load_adapter(target.model, target.fingerprint, adapter_file)
    described = check_adapter(adapter_file, read_adapter(adapter_file)[1], profile, plan, tag)
    windows = planned_windows(plan, profile.name, corpus, target.noise_high)
    identity = {
        "profile": profile.name,
        "profile_sha256": profile_sha256,
        "tag": tag,
        "plan_sha256": plan.sha256,
        "target_fingerprint": target.fingerprint,
        "target_revision": revision,
        "adapter_sha256": files.sha256_file(adapter_file),
        "student_ids_sha256": windows.digest(),
        "code": code_digest(SCRIPT),
        "packages": provenance.package_versions(),
    }
    check_stage0(stage0_file, identity)
    shards = Shards(work, identity, plan_file)
    first_batches = range(0, windows.sample.batches, BATCHES_PER_PIECE)

    def piece(place: int) -> list[Row]:
        first = first_batches[place]
        last = min(first + BATCHES_PER_PIECE, windows.sample.batches)
        return [
            row
            for index in range(first, last)
            for row in batch_rows(adapter, windows.batch(index), index, windows.seed_row)
        ]

    names = [f"batch{first}" for first in first_batches]
    pieces = shards.collect(names, piece, "piece")
    target.check_unchanged()
    frame = table([row for piece in pieces for row in piece])
    rows.write_rows(out, frame, "positions")
    meta = {
        "study": plan.study,
        **identity,
        **describe(windows, frame, target.vocab_size),
        "adapter": described,
        "rows": {out.name: files.sha256_file(out)},
        "samples": windows.sample.model_dump(),
        "seeds": plan.seeds,
        "provenance": provenance.collect(shards.start, plan_file),
    }
    files.write_json(meta_file, meta)


def check_stage0(path: Path, identity: Mapping[str, object]) -> None:
    """Refuse to extract what stage 0 has not passed: same target, adapter, plan and windows."""
    record = files.read_json(path)
    passed = record.get("subject", {}) if isinstance(record, dict) else {}
    expected = {name: identity[name] for name in STAGE0_SUBJECT}
    expected[f"{identity['tag']}_sha256"] = identity["adapter_sha256"]
    for name, value in expected.items():
        if passed.get(name) != value:
            raise UserError(path, f"subject.{name}", passed.get(name), value, "Run stage 0 again")


def table(records: list[Row]) -> pd.DataFrame:
    """Records as the position table: FULL, then SCHEDULE, each by window and slot."""
    frame = pd.DataFrame.from_records(records, columns=rows.columns("positions"))
    return frame.sort_values(["stratum", "example_id", "offset"], kind="stable", ignore_index=True)


def describe(windows: WindowPlan, frame: pd.DataFrame, vocab_size: int) -> dict[str, object]:
    """Sizes and acceptance rates, for the meta file."""
    by_stratum = frame.groupby("stratum")["accepted"]
    return {
        "window_pool": len(windows.pool_NW),
        "windows": windows.sample.windows,
        "noise_high": windows.noise_high,
        "vocab_size": vocab_size,
        "log_vocab": math.log(vocab_size),
        "positions": len(frame),
        "positions_per_stratum": by_stratum.size().to_dict(),
        "acceptance_per_stratum": by_stratum.mean().to_dict(),
    }
