"""The reader of row files accepts what is right and says in one line what is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.errors import UserError
from diffdraft.rows import columns, parse, read_rows, validate, write_rows
from tests.synthetic import position_table, timing_tables

HEAD = Path(__file__).parent / "data" / "published_positions_head.csv"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return position_table(8)


def rejected(path: Path, schema_name: str = "positions") -> str:
    with pytest.raises(UserError) as caught:
        read_rows(path, schema_name)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    return line


def written(tmp_path: Path, frame: pd.DataFrame) -> Path:
    path = tmp_path / "positions.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_reads_both_line_ends(table, tmp_path, line_end):
    path = tmp_path / "positions.csv"
    path.write_bytes(table.to_csv(index=False, lineterminator=line_end).encode())
    pd.testing.assert_frame_equal(read_rows(path, "positions"), table)


def test_written_rows_read_back_bit_equal_with_lf(table, tmp_path):
    write_rows(tmp_path / "p.csv", table, "positions")
    pd.testing.assert_frame_equal(
        read_rows(tmp_path / "p.csv", "positions"), table, check_exact=True
    )
    assert b"\r" not in (tmp_path / "p.csv").read_bytes()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(min_value=5e-324, max_value=1e300), min_size=4, max_size=4))
def test_floats_survive_the_round_trip(tmp_path_factory, seconds):
    timing, _ = timing_tables(1)
    timing["wall_seconds"] = seconds
    path = tmp_path_factory.mktemp("rows") / "timing.csv"
    write_rows(path, timing, "timing")
    assert (read_rows(path, "timing")["wall_seconds"] == seconds).all()


@pytest.mark.parametrize(("block_size", "window_tokens"), [(4, 64), (8, 128), (16, 256)])
def test_any_window_and_block_size(tmp_path, block_size, window_tokens):
    table = position_table(4, block_size=block_size, window_tokens=window_tokens)
    write_rows(tmp_path / "p.csv", table, "positions")
    assert len(read_rows(tmp_path / "p.csv", "positions")) == 2 * 4 * (block_size - 1)


def test_published_bytes_have_our_layout_and_keep_every_check():
    head = parse(HEAD, "positions")
    assert list(head) == columns("positions")
    assert head["existing_draftability_score"][0] == 1.881938
    full = head.iloc[:28]  # four whole windows; a window whose rate was 1 looks like FULL
    both = pd.concat([full, full.assign(stratum="SCHEDULE")], ignore_index=True)
    assert len(validate(both, "positions", HEAD)) == 56


def test_published_head_alone_lacks_a_stratum():
    assert "found only FULL; expected rows of both FULL and SCHEDULE" in rejected(HEAD)


def edited(column, value, row=9):
    def edit(table: pd.DataFrame) -> pd.DataFrame:
        out = table.astype(object)
        out.loc[row, column] = value(table, row) if callable(value) else value
        return out

    return edit


BAD_TABLES = {
    "missing column": (lambda t: t.drop(columns="entropy"), "no column entropy"),
    "extra column": (lambda t: t.assign(prompt="x"), "extra column 'prompt'"),
    "column order": (lambda t: t[list(t)[::-1]], "'corrupt_entropy' as column 1"),
    "no rows": (lambda t: t.iloc[:0], "rows: found none"),
    "NaN": (edited("entropy", np.nan), "entropy, line 11: found nothing"),
    "NaN spelled": (edited("entropy", "nan"), "entropy, line 11: found 'nan'"),
    "infinite": (edited("teacher_entropy", "inf"), "teacher_entropy, line 11: found 'inf'"),
    "text in a number": (edited("entropy", "high"), "expected a finite number"),
    "float in an integer": (edited("offset", 4.5), "offset, line 11: found '4.5'"),
    "out of range": (edited("timestep", 1.5), "timestep, line 11: found 1.5"),
    "not a flag": (edited("accepted", 2), "accepted, line 11: found 2"),
    "negative": (edited("clean_token", -1), "clean_token, line 11: found -1"),
    "unknown stratum": (edited("stratum", "PART"), "stratum, line 11: found PART"),
    "id": (edited("example_id", "window 3"), "example_id, line 11: found window 3"),
    "duplicate": (
        lambda t: pd.concat([t, t.iloc[[3]]]),
        "offset, line 114: found (FULL, w0000r0, 5) a second time",
    ),
    "stratum absent": (lambda t: t[t["stratum"] == "SCHEDULE"], "found only SCHEDULE"),
    "missing offset": (lambda t: t.drop(index=12), "no offset 7 of window w0000r1 in FULL"),
    "missing window": (
        lambda t: t[(t["stratum"] == "FULL") | (t["example_id"] != "w0001r2")],
        "no offset 2 of window w0001r2 in SCHEDULE",
    ),
    "position": (edited("position", 121), "expected the same position - offset"),
    "accepted": (
        edited("accepted", lambda t, row: 1 - t["accepted"][row]),
        "expected 1 exactly where proposed_token = verifier_token",
    ),
    "rate in FULL": (edited("timestep", 0.5), "timestep, line 11: found 0.5; expected 1 in FULL"),
    "flag in FULL": (edited("corruption_level", 0), "corruption_level, line 11: found 0"),
    "predecessors": (edited("n_corrupted_predecessors", 6), "line 11: found 6; expected the sum"),
    "margin": (edited("top1_top2_margin", 1.0), "expected at most top1_probability"),
    "support": (edited("effective_support", 1.0), "expected exp(entropy)"),
    "normalisation": (edited("normalized_entropy", 0.001), "log(vocabulary size)"),
    "clean token": (edited("clean_token", 511), "the same value in FULL and SCHEDULE"),
    "teacher entropy": (edited("teacher_entropy", 0.001), "the same value in FULL and SCHEDULE"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_table_is_one_line(table, tmp_path, name):
    edit, expected = BAD_TABLES[name]
    assert expected in rejected(written(tmp_path, edit(table)))


@pytest.mark.parametrize("column", ["existing_draftability_score", "corrupt_entropy"])
def test_without_noise_the_corrupt_pass_equals_the_full_pass(table, tmp_path, column):
    clean = (table["corruption_level"] == 0) & (table["n_corrupted_predecessors"] == 0)
    row = table.index[clean][0]
    bad = edited(column, lambda t, row: t[column][row] + 0.01, row)(table)
    assert "where no row is corrupted" in rejected(written(tmp_path, bad))


def test_bad_bytes(tmp_path):
    path = tmp_path / "positions.csv"
    path.write_bytes(b"")
    assert "found an empty file" in rejected(path)
    path.write_bytes(",".join(columns("positions")).encode() + b"\n\xff\xfe")
    assert "found not UTF-8" in rejected(path)
    path.write_text(",".join(columns("positions")) + "\nw0000r0,FULL\n")
    assert "line 2: found 2 fields; expected 19 fields" in rejected(path)
    path.unlink()
    assert "found nothing there" in rejected(path)


def test_refused_rows_leave_no_file(table, tmp_path):
    with pytest.raises(UserError):
        write_rows(tmp_path / "p.csv", table.assign(accepted=1), "positions")
    assert list(tmp_path.iterdir()) == []


def test_wrong_type_in_memory_is_refused(table):
    with pytest.raises(UserError, match="offset: found type float64; expected int64"):
        validate(table.astype({"offset": float}), "positions", "p.csv")


def test_timing_and_cycles(tmp_path):
    timing, cycles = timing_tables(3, blocks=2)
    for name, frame in (("timing", timing), ("cycles", cycles)):
        write_rows(tmp_path / f"{name}.csv", frame, name)
        pd.testing.assert_frame_equal(read_rows(tmp_path / f"{name}.csv", name), frame)
    again = pd.concat([timing, timing.iloc[[0]]])
    again.to_csv(tmp_path / "timing.csv", index=False)
    assert "(p00, 0, ar) a second time" in rejected(tmp_path / "timing.csv", "timing")
    cycles.assign(accepted=9).to_csv(tmp_path / "cycles.csv", index=False)
    assert "accepted, line 2: found 9; expected at most offered" in rejected(
        tmp_path / "cycles.csv", "cycles"
    )
    timing.assign(token_ids_sha="abc").to_csv(tmp_path / "timing.csv", index=False)
    assert "token_ids_sha, line 2: found abc" in rejected(tmp_path / "timing.csv", "timing")


def test_a_quote_that_is_never_closed_is_one_line(tmp_path):
    path = tmp_path / "positions.csv"
    write_rows(path, position_table(200), "positions")
    header, rows = path.read_text().split("\n", 1)
    path.write_text(f'{header}\n"{rows}')
    with pytest.raises(UserError, match=r"positions\.csv: line \d+: found"):
        read_rows(path, "positions")
