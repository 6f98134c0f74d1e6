from diffdraft.measure.speculative import protocol as module

# isort: split
import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft import rows
from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.drafters.base import SlotConfidence
from diffdraft.errors import UserError
from diffdraft.measure.speculative.arms import Arm
from diffdraft.measure.speculative.passages import passages
from diffdraft.measure.speculative.record import frame
from diffdraft.measure.workloads import EncodedPrompt

PROMPT = EncodedPrompt("prose_1", "prose", [5, 6, 7])
TEXT = [1, 2, 3, 4, 5]
CONFIDENCE = (SlotConfidence(0.75, 0.5), SlotConfidence(0.5, 0.25))
NAMES = ("ar", "uno_k4", "conf_k4")


def fake_arms(calls, texts=None, names=NAMES):
    """Arms whose text in the n-th decode is `texts[name][n]`, or the same always."""

    def make(name):
        def run(prompt, place, tokens):
            calls.append((name, prompt.id, place, tokens))
            made = sum(call[0] == name for call in calls) - 1
            text = texts[name][made] if texts and name in texts else TEXT
            sure = CONFIDENCE if name == "conf_k4" else ()
            cycles = [
                Cycle(1, 4, 2, 1, 3, 2, 0, 0.25, 0.5, 0.125, 1.0, sure),
                Cycle(2, 4, 2, 2, 2, 3, 1, 0.25, 0.5, 0.125, 0.9375, sure),
            ]
            cycles = [] if name == "ar" else cycles
            return Trace(3, list(text), cycles, 1, 0 if cycles else 4, 0.5, 4.0)

        return Arm(name, name.split("_")[0], 0 if name == "ar" else 4, run)

    return [make(name) for name in names]


def unit(number=0, place=0, tokens=5):
    return module.Unit(PROMPT, place, number, tokens, "float32")


def protocol(**changes):
    values = {"repeats": 2, "warmup": 1, "max_load_before": 0.5, "order_seed": 9, "loop_ngram": 2}
    return module.Protocol(**{**values, "load": lambda: 0.1, **changes})


def measure(texts=None, calls=None, which=None, **changes):
    arms = fake_arms([] if calls is None else calls, texts)
    return module.time_unit(which or unit(), arms, protocol(**changes))


def test_every_arm_once_a_repeat_in_the_keyed_order():
    calls = []
    made = measure(calls=calls, which=unit(number=4, place=2))["generations"]
    orders = [module.arm_order(9, turn, 3) for turn in (8, 9)]  # the fourth unit, two repeats
    expected = [NAMES[i] for order in orders for i in order]
    assert [call[0] for call in calls] == [row["arm"] for row in made] == expected
    assert [row["repeat"] for row in made] == [0, 0, 0, 1, 1, 1]
    assert [row["order"] for row in made] == list(range(24, 30))
    assert {call[1:] for call in calls} == {("prose_1", 2, 5)}


@given(st.integers(0, 2**40), st.integers(0, 300), st.integers(1, 12))
def test_an_order_is_a_permutation_and_a_function_of_its_key(seed, turn, n):
    order = module.arm_order(seed, turn, n)
    assert sorted(order) == list(range(n))
    assert order == module.arm_order(seed, turn, n)


@pytest.mark.parametrize("n", range(2, 12))
def test_every_arm_is_in_every_place_and_behind_every_other_equally_often(n):
    rounds = n if n % 2 == 0 else 2 * n
    orders = [module.arm_order(5, turn, n) for turn in range(rounds)]
    for place in range(n):
        assert Counter(order[place] for order in orders) == dict.fromkeys(range(n), rounds // n)
    pairs = Counter(pair for order in orders for pair in itertools.pairwise(order))
    assert len(pairs) == n * (n - 1) and set(pairs.values()) == {rounds // n}


def test_orders_are_dealt_by_the_seed_and_anew_after_every_square():
    first, second = ([module.arm_order(1, turn, 8) for turn in range(at, at + 8)] for at in (0, 8))
    assert sorted(first) == sorted(second) and first != second
    assert first != [module.arm_order(2, turn, 8) for turn in range(8)]


def test_warm_up_is_short_and_of_the_first_prompts():
    calls = []
    units = [unit(number=i, place=i, tokens=20) for i in range(5)]
    module.warm_up(units, fake_arms(calls), protocol(warmup=2))
    assert len(calls) == 2 * 3 * 3
    assert {call[3] for call in calls} == {8}
    assert {call[2] for call in calls} == {0, 1, 2}
    module.warm_up([unit(tokens=5)], fake_arms(calls := []), protocol())
    assert {call[3] for call in calls} == {5}


def test_rows_hold_what_was_measured():
    made = measure()
    row = next(r for r in made["generations"] if r["arm"] == "uno_k4" and r["repeat"] == 0)
    sha = row.pop("trace_sha")
    row.pop("order")
    assert len(sha) == 64
    assert row == {
        "prompt_id": "prose_1",
        "category": "prose",
        "prompt_tokens": 3,
        "max_tokens": 5,
        "arm": "uno_k4",
        "kind": "uno",
        "dtype": "float32",
        "repeat": 0,
        "block_size": 4,
        "tokens": 5,
        "wall_seconds": 4.0,
        "prefill_seconds": 0.5,
        "draft_seconds": 0.5,
        "verify_seconds": 1.0,
        "commit_seconds": 0.25,
        "overhead_seconds": 0.1875,
        "forwards": 6,
        "cycles": 2,
        "accepted": 3,
        "offered": 4,
        "full_blocks": 1,
        "replays": 1,
        "load_before": 0.1,
        "busy": 0,
        "identical": 1,
        "first_divergence": -1,
        "looped_fraction": 0.0,
        "distinct_ratio": 1.0,
        "token_ids": "1 2 3 4 5",
    }


def test_rows_fit_their_schemas():
    for schema, made in measure().items():
        rows.validate(frame(made, schema), schema, "rows")


def test_cycles_and_slots_are_those_of_repeat_0():
    made = measure(repeats=3)
    cycles = pd.DataFrame(made["draft_cycles"])
    assert len(cycles) == 2 * 2
    assert cycles.groupby("arm")["committed"].sum().to_dict() == {"uno_k4": 5, "conf_k4": 5}
    slots = pd.DataFrame(made["slots"])
    assert set(slots["arm"]) == {"conf_k4"}
    assert slots["slot"].tolist() == [1, 2, 1, 2]
    assert slots["accepted"].tolist() == [1, 0, 1, 1]
    assert slots["top1"].tolist() == [0.75, 0.5] * 2
    assert slots["margin"].tolist() == [0.5, 0.25] * 2


def test_an_arm_is_compared_with_native_decoding_of_its_repeat():
    """Native decoding itself with that of repeat 0, so that it is seen not to repeat."""
    other = [1, 2, 9, 4, 5]
    made = measure({"ar": [TEXT, other], "uno_k4": [TEXT, TEXT]})["generations"]
    found = {(row["arm"], row["repeat"]): row["first_divergence"] for row in made}
    assert found["ar", 0] == found["uno_k4", 0] == found["conf_k4", 0] == -1
    assert found["ar", 1] == found["uno_k4", 1] == found["conf_k4", 1] == 2
    assert all((row["identical"] == 1) == (row["first_divergence"] == -1) for row in made)


def test_loops_are_those_of_the_native_text_in_all_arms():
    looped = [1, 2, 1, 2, 1]
    made = measure({"ar": [looped] * 2})["generations"]
    assert {row["looped_fraction"] for row in made} == {0.5}
    assert {row["distinct_ratio"] for row in made} == {0.4}


def test_the_digest_of_a_trace_tells_decisions_and_tokens_apart_and_forgets_times():
    def trace(accepted=1, seconds=0.5, tokens=(1, 2, 3)):
        cycle = Cycle(1, 4, 3, accepted, 3, 2, 0, seconds, 0.5, 0.1, 2.0)
        return module.trace_sha(Trace(3, list(tokens), [cycle]))

    assert trace() == trace(seconds=0.25)
    assert len({trace(), trace(accepted=2), trace(tokens=(1, 2, 4))}) == 3


@pytest.mark.parametrize(("bound", "busy"), [(0.05, [1] * 6), (0.3, [0, 0, 0, 1, 1, 1])])
def test_a_busy_machine_marks_the_rows(bound, busy):
    loads = iter([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    made = measure(load=lambda: next(loads), max_load_before=bound)["generations"]
    assert [row["busy"] for row in made] == busy
    assert made[3]["load_before"] == 0.4


@pytest.fixture
def corpus(tmp_path):
    np.save(tmp_path / "prompts.npy", np.arange(200, dtype=np.int32))
    return tmp_path


def test_all_lengths_of_a_passage_end_at_the_same_token(corpus):
    short, long = passages(corpus, [3, 20], 4, seed=1)
    for a, b in zip(short, long, strict=True):
        assert a.id == b.id
        assert a.category == "context"
        assert b.ids[-3:] == a.ids
        assert len(b.ids) == 20
    assert [prompt.id for prompt in long] == [f"passage_{i:02d}" for i in range(4)]
    assert len({prompt.ids[0] for prompt in long}) == 4


def test_a_passage_of_any_length_begins_as_a_text_does(corpus):
    bare = passages(corpus, [3, 20], 4, seed=1)
    (corpus / "corpus.json").write_text('{"start_token": 777}')
    for plain, begun in zip(bare, passages(corpus, [3, 20], 4, seed=1), strict=True):
        for a, b in zip(plain, begun, strict=True):
            assert b.ids == [777, *a.ids[1:]]


def test_passages_are_drawn_by_the_seed(corpus):
    def starts(seed):
        return [prompt.ids[0] for prompt in passages(corpus, [20], 5, seed)[0]]

    assert starts(1) == starts(1)
    assert len({tuple(starts(seed)) for seed in range(5)}) == 5


def test_too_few_passages_are_refused(corpus):
    with pytest.raises(UserError, match="found 10 windows of 20 tokens; expected at least 11"):
        passages(corpus, [20], 11, seed=1)
