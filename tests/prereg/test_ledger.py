"""The chain: whatever is done to a line is found, and named in one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.errors import UserError
from diffdraft.prereg import ledger
from diffdraft.prereg.schema import load_plan

from .examples import plan_text


def make_ledger(tmp_path, count: int) -> bytes:
    for number in range(count):
        plan = tmp_path / f"study_{number}.yaml"
        plan.write_text(f"study: {number}\n")
        ledger.append(tmp_path, "freeze", plan)
    return (tmp_path / ledger.LEDGER).read_bytes()


@pytest.fixture(scope="module")
def six_lines(tmp_path_factory) -> list[bytes]:
    return make_ledger(tmp_path_factory.mktemp("prereg"), 6).splitlines(keepends=True)


def refused(data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        ledger.parse(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_ledger_as_written_reads_back(six_lines):
    entries = ledger.parse(b"".join(six_lines))
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert entries[0].previous == ledger.FIRST
    assert [entry.previous for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    assert ledger.parse(b"") == []


@given(data=st.data())
def test_removing_lines_is_found(six_lines, data):
    keep = data.draw(st.sets(st.integers(0, 5), max_size=5))
    remaining = b"".join(line for i, line in enumerate(six_lines) if i in keep)
    whole = b"".join(six_lines)
    if keep == set(range(len(keep))):  # lines at the end: only an earlier copy can tell
        assert len(ledger.parse(remaining)) == len(keep)
    else:
        assert "a line was removed or moved" in refused(remaining)
    assert not ledger.extends(remaining, whole)


@given(order=st.permutations(range(6)))
def test_reordering_is_found(six_lines, order):
    data = b"".join(six_lines[i] for i in order)
    if list(order) == sorted(order):
        ledger.parse(data)
    else:
        assert "a line was removed or moved" in refused(data)


@given(data=st.data())
def test_changing_any_byte_is_found(six_lines, data):
    whole = bytearray(b"".join(six_lines))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    message = refused(bytes(whole))
    line = bytes(b"".join(six_lines)[:place]).count(b"\n") + 1
    at_end = place == len(whole) - 1
    assert at_end or f"line {line}" in message


@given(data=st.data())
def test_a_recomputed_hash_breaks_the_next_line(six_lines, data):
    """Someone who edits a line and its own hash is given away by the line after it."""
    number = data.draw(st.integers(0, 4))
    value = json.loads(six_lines[number])
    field = data.draw(st.sampled_from(["sha256", "file", "date", "bytes"]))
    value[field] = {
        "sha256": "0" * 64,
        "file": "other.yaml",
        "date": "2020-01-01T00:00:00+00:00" if number == 0 else value["date"].replace(":", ":", 1),
        "bytes": value["bytes"] + 1,
    }[field]
    value["hash"] = ledger._line_hash(value)
    forged = [*six_lines]
    forged[number] = ledger.canonical(value).encode() + b"\n"
    if forged != six_lines:
        message = refused(b"".join(forged))
        assert f"line {number + 2}" in message
        assert "a line was removed or moved" in message


def test_inserting_or_repeating_a_line_is_found(six_lines):
    assert "removed or moved" in refused(b"".join([*six_lines[:2], *six_lines[1:]]))
    assert "not JSON" in refused(b"".join([*six_lines[:3], b"\n", *six_lines[3:]]))
    assert "not JSON" in refused(b"hello\n")
    assert "another spelling" in refused(b"[]\n")
    assert "no line end" in refused(b"".join(six_lines)[:-1])


def test_a_date_that_is_none_or_goes_back_is_found(six_lines):
    def forge(date):
        value = json.loads(six_lines[5]) | {"date": date}
        value["hash"] = ledger._line_hash(value)
        return b"".join([*six_lines[:5], ledger.canonical(value).encode() + b"\n"])

    assert "a date not before" in refused(forge("2020-01-01T00:00:00+00:00"))
    assert "date" in refused(forge("the day before yesterday"))
    assert "date" in refused(forge("2036-01-01T00:00:00"))  # no time zone


def test_a_file_is_registered_once(tmp_path):
    make_ledger(tmp_path, 2)
    again = tmp_path / "study_0.yaml"
    again.write_text("study: changed\n")
    ledger.append(tmp_path, "freeze", again)
    with pytest.raises(UserError, match="each file once"):
        ledger.read(tmp_path)


def test_appending_keeps_every_byte_before(tmp_path):
    before = make_ledger(tmp_path, 3)
    plan = tmp_path / "new.yaml"
    plan.write_text("study: new\n")
    ledger.append(tmp_path, "freeze", plan)
    after = (tmp_path / ledger.LEDGER).read_bytes()
    assert ledger.extends(after, before)
    assert not ledger.extends(before, after)
    assert not list(tmp_path.glob(".*"))


def test_appending_to_a_broken_ledger_is_refused_and_changes_nothing(tmp_path):
    lines = make_ledger(tmp_path, 3).splitlines(keepends=True)
    path = tmp_path / ledger.LEDGER
    path.write_bytes(lines[0] + lines[2])
    plan = tmp_path / "new.yaml"
    plan.write_text("study: new\n")
    with pytest.raises(UserError, match="line 2"):
        ledger.append(tmp_path, "freeze", plan)
    assert path.read_bytes() == lines[0] + lines[2]


def test_a_frozen_plan_is_read_only_as_it_was_frozen(tmp_path):
    plan = tmp_path / "rprm.yaml"
    plan.write_text(plan_text("rprm"))
    load_plan(plan)
    ledger.append(tmp_path, "freeze", plan)
    load_plan(plan)
    plan.write_text(plan_text("rprm").replace("bound: 0.05", "bound: 0.04"))
    with pytest.raises(UserError, match="as frozen on"):
        load_plan(plan)
    plan.write_text(plan_text("rprm"))
    path = tmp_path / ledger.LEDGER
    path.write_bytes(path.read_bytes().replace(b'"seq":1', b'"seq":2'))
    with pytest.raises(UserError, match="line 1"):
        load_plan(plan)


def test_require_frozen(tmp_path):
    make_ledger(tmp_path, 2)
    plan = tmp_path / "study_1.yaml"
    assert ledger.require_frozen(plan).seq == 2
    draft = tmp_path / "draft.yaml"
    draft.write_text("study: draft\n")
    with pytest.raises(UserError, match="no line for this file"):
        ledger.require_frozen(draft)
    plan.write_text("study: 2\n")
    with pytest.raises(UserError, match="as frozen on"):
        ledger.require_frozen(plan)
    plan.unlink()
    with pytest.raises(UserError, match="nothing there"):
        ledger.require_frozen(plan)
    # The last line removed: the plan it froze is not frozen any more.
    plan.write_text("study: 1\n")
    path = tmp_path / ledger.LEDGER
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(UserError, match="no line for this file"):
        ledger.require_frozen(plan)
