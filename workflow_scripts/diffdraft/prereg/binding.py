"""What belongs together: rows, the metadata that describe them, the adapter, the other arm."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.manifest import Measurement
from diffdraft.prereg.registry import Study
from diffdraft.prereg.schema import Plan
from diffdraft.row_rules import KEY
from diffdraft.rows import read_rows

EXACT = [
    *("position", "corruption_level", "n_corrupted_predecessors"),
    *("clean_token", "verifier_token", "timestep"),
]
COMPUTED = ["teacher_entropy", "existing_draftability_score", "corrupt_entropy"]
COMPUTED_ALIKE = 1e-5  # float32 of the same forward, summed in another order


def check_rows(study: Study, measurements: Mapping[str, Measurement], folder: Path) -> None:
    """Raise `UserError` unless each metadata file has the hashes of the row files beside it."""
    for name, measurement in measurements.items():
        described = [rows for rows, meta in study.metas.items() if meta == name]
        if sorted(measurement.rows) != sorted(described):
            raise UserError(folder / name, "rows", sorted(measurement.rows), sorted(described))
        for rows in described:
            found = files.sha256_file(folder / rows)
            if found != measurement.rows[rows]:
                expected = f"{measurement.rows[rows]}, as measured ({name})"
                raise UserError(folder / rows, "sha256", found, expected)


def check_arms(
    plan: Plan, study: Study, measurements: Mapping[str, Measurement], folder: Path
) -> None:
    """Raise `UserError` unless each arm was measured with its own adapter, trained as planned."""
    planned = {arm.id: arm for arm in plan.arms}
    seen: dict[str, str] = {}
    for name, arm in study.arms.items():
        file, measurement = folder / name, measurements[name]
        if arm not in planned:
            raise UserError(file, "arm", arm, f"one of {', '.join(planned)}, as planned")
        if measurement.student_ids_sha256 is None:
            raise UserError(file, "student_ids_sha256", "nothing", "the hash of all student inputs")
        stated = {"tag": measurement.tag, "adapter.arm": measurement.adapter.arm}
        for field, found in stated.items():
            if found != arm:
                raise UserError(file, field, found, f"{arm}, as planned")
        block = planned[arm].trained_block_size
        if block is not None and measurement.adapter.block_size != str(block):
            found = measurement.adapter.block_size
            raise UserError(file, "adapter.block_size", found, f"{block}, as planned")
        if other := seen.get(measurement.adapter_sha256):
            raise UserError(file, "adapter_sha256", f"that of {other}", "an adapter of its own")
        seen[measurement.adapter_sha256] = name


def check_shared_columns(study: Study, folder: Path) -> None:
    """Raise `UserError` unless all arms agree in what does not depend on the adapter."""
    (first, expected), *others = (
        (name, _by_key(folder / name, schema)) for name, schema in study.rows.items()
    )
    for name, frame in others:
        if not frame.index.equals(expected.index):
            raise UserError(folder / name, ", ".join(KEY), "other windows", f"those of {first}")
        for column in EXACT + COMPUTED:
            allowed = COMPUTED_ALIKE if column in COMPUTED else 0.0
            apart = (frame[column] - expected[column]).abs() > allowed
            if apart.any():
                row = int(apart.to_numpy().argmax())
                words = f"{frame[column].iloc[row]} at {' '.join(map(str, frame.index[row]))}"
                wanted = f"{expected[column].iloc[row]} as in {first}"
                raise UserError(folder / name, column, words, wanted)


def _by_key(file: Path, schema: str) -> pd.DataFrame:
    return read_rows(file, schema).set_index(KEY).sort_index()
