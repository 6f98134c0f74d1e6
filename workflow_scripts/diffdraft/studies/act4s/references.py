"""Does every generation say truly whether, and where, it leaves the native text?"""

import pandas as pd

from diffdraft.errors import UserError
from diffdraft.stats.texts import first_divergence
from diffdraft.studies.act4s.study_rows import RunRows

TEXT = ["prompt_id", "prompt_tokens", "max_tokens", "dtype"]
KEY = [*TEXT, "arm", "repeat"]


def reference_ids(rows: pd.DataFrame, baseline_arm: str) -> pd.Series:
    """For every row the native ids that it is compared with.

    An arm is compared with the native run of its repeat, and a native run with that of repeat 0.
    """
    native = rows[rows["arm"] == baseline_arm].set_index([*TEXT, "repeat"])["token_ids"]
    repeat = rows["repeat"].where(rows["arm"] != baseline_arm, 0)
    keys = pd.MultiIndex.from_frame(rows[TEXT].assign(repeat=repeat))
    return pd.Series(native.loc[keys].to_numpy(), index=rows.index)


def check_references(run: RunRows, baseline_arm: str) -> None:
    """`identical` and `first_divergence` follow from the ids.

    Raises:
        UserError: naming the generation.
    """
    references = reference_ids(run.generations, baseline_arm)
    for row, reference in zip(run.generations.itertuples(), references, strict=True):
        expected = first_divergence(str(row.token_ids).split(), reference.split())
        if row.first_divergence != expected:
            found = (
                f"{row.first_divergence} for prompt {row.prompt_id}, arm {row.arm}, repeat"
                f" {row.repeat}"
            )
            raise UserError(run.file, "first_divergence", found, f"{expected} by the ids")


def check_divergences(run: RunRows, baseline_arm: str) -> None:
    """There is one divergence row for every drafted generation that left the native text.

    Raises:
        UserError: naming a generation without one, or a row without such a generation.
    """
    file = run.beside("divergences")
    drafted = run.generations[run.generations["arm"] != baseline_arm]
    left = drafted[drafted["identical"] == 0].set_index(KEY)["first_divergence"]
    rows = run.divergences  # native runs that do not repeat may be audited too
    found = rows[rows["arm"] != baseline_arm].set_index(KEY)["position"]
    for key in left.index.difference(found.index):
        where = ", ".join(map(str, key))
        raise UserError(file, "rows", f"none of {where}", f"one a divergence in {run.file.name}")
    for key in found.index.difference(left.index):
        where = ", ".join(map(str, key))
        raise UserError(file, "rows", f"one of {where}", f"only divergences of {run.file.name}")
    for key in left.index[left.ne(found.reindex(left.index))]:
        where = f"{found[key]} for {', '.join(map(str, key))}"
        raise UserError(file, "position", where, f"{left[key]}, its first divergence")
