import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.measure.paired_timing import frame
from diffdraft.measure.timing import Arm, Protocol, time_prompt, token_ids_sha
from diffdraft.measure.workloads import EncodedPrompt
from diffdraft.rows import validate

PROMPT = EncodedPrompt("prose_1", "prose", [5, 6, 7])


def fake_arms(names, calls):
    def decode(name):
        def run(prompt, index):
            calls.append((name, prompt.id, index))
            drafted = name != "ar"
            cycles = [
                Cycle(i + 1, 4, 3, i, min(i + 2, 3), 2, 0, 0.25, 0.5, 0.125, 1.0)
                for i in range(2 * drafted)
            ]
            tokens = [1, 2, 3, 4, 5]
            return Trace(3, tokens, cycles, 1, 0 if drafted else 4, 0.5, 4.0)

        return run

    return [Arm(name, decode(name)) for name in names]


def measure(names, blocks, index=0, load=lambda: 0.1, bound=0.5):
    calls = []
    arms = fake_arms(names, calls)
    return *time_prompt(PROMPT, index, arms, Protocol(blocks, bound, load)), calls


def test_order_is_abba_after_one_discarded_run_of_each_arm():
    timing, _, calls = measure(["ar", "uno_k4"], 2, index=3)
    assert [name for name, _, _ in calls] == ["ar", "uno_k4"] + ["ar", "uno_k4", "uno_k4", "ar"] * 2
    assert {call[1:] for call in calls} == {("prose_1", 3)}
    assert [row["arm"] for row in timing] == ["ar", "uno_k4", "uno_k4", "ar"] * 2
    assert [row["repeat"] for row in timing] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [row["block"] for row in timing] == [0] * 4 + [1] * 4
    assert [row["order"] for row in timing] == list(range(24, 32))


@given(st.integers(1, 4), st.integers(1, 3))
def test_a_linear_drift_adds_the_same_to_every_arm(n_arms, blocks):
    names = [f"arm{i}" for i in range(n_arms)]
    timing, _, _ = measure(names, blocks)
    orders = {name: [r["order"] for r in timing if r["arm"] == name] for name in names}
    assert len({sum(places) for places in orders.values()}) == 1
    assert {len(places) for places in orders.values()} == {2 * blocks}


def test_rows_hold_what_was_measured():
    timing, cycles, _ = measure(["ar", "uno_k4"], 1)
    ar, uno = timing[:2]
    assert uno == {
        "prompt_id": "prose_1",
        "category": "prose",
        "repeat": 0,
        "arm": "uno_k4",
        "block": 0,
        "order": 1,
        "prompt_tokens": 3,
        "tokens": 5,
        "wall_seconds": 4.0,
        "prefill_seconds": 0.5,
        "draft_seconds": 0.5,
        "verify_seconds": 1.0,
        "commit_seconds": 0.25,
        "forwards": 5,
        "cycles": 2,
        "accepted": 1,
        "offered": 6,
        "token_ids_sha": token_ids_sha([1, 2, 3, 4, 5]),
        "load_before": 0.1,
        "busy": 0,
    }
    assert (ar["forwards"], ar["cycles"], ar["offered"], ar["draft_seconds"]) == (5, 0, 0, 0.0)
    key = {"prompt_id": "prose_1", "repeat": 0, "arm": "uno_k4"}
    assert cycles[:2] == [
        {**key, "cycle": 1, "accepted": 0, "offered": 3, "committed": 2},
        {**key, "cycle": 2, "accepted": 1, "offered": 3, "committed": 3},
    ]
    validate(frame(timing, "timing"), "timing", "rows")
    validate(frame(cycles, "cycles"), "cycles", "rows")


@pytest.mark.parametrize(("bound", "busy"), [(0.05, [1, 1, 1, 1]), (0.3, [0, 0, 0, 1])])
def test_the_busy_mark_follows_the_bound(bound, busy):
    loads = iter([0.1, 0.2, 0.3, 0.4])
    timing, _, _ = measure(["ar", "uno_k4"], 1, load=lambda: next(loads), bound=bound)
    assert [row["load_before"] for row in timing] == [0.1, 0.2, 0.3, 0.4]
    assert [row["busy"] for row in timing] == busy


def test_sha_is_over_little_endian_32_bit_ids():
    expected = hashlib.sha256(bytes([1, 0, 0, 0, 44, 1, 0, 0])).hexdigest()
    assert token_ids_sha([1, 300]) == expected
