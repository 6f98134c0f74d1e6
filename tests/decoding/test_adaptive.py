from diffdraft.decoding import adaptive as module

# isort: split
import mlx.core as mx
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.trace import Cycle
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.errors import UserError
from tests.decoding import parts

COST = {2: 46.67, 4: 49.81, 8: 53.81}
PUBLISHED = [2, 4, 8]
ANY_LOGITS = mx.zeros((1, 4))
SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True)
DECAYS = st.floats(0.01, 0.99)
WANTED = st.lists(st.integers(0, 12), max_size=60)


def cycle_of(size, accepted, index=1):
    return Cycle(
        index=index,
        block_size=size,
        offered=size - 1,
        accepted=accepted,
        committed=accepted + 2,
        forwards=2,
        replays=0,
        draft_seconds=0.0,
        verify_seconds=0.0,
        commit_seconds=0.0,
        cycle_seconds=0.0,
    )


def play(policy, wanted, logits=ANY_LOGITS):
    """(block size, accepted) of one cycle a number; a cycle accepts no more than it offers."""
    seen = []
    for index, number in enumerate(wanted, start=1):
        size = policy.block_size()
        assert policy.block_size() == size  # asking twice changes nothing
        seen.append((size, min(number, size - 1)))
        policy.observe(cycle_of(*seen[-1], index), logits)
    return seen


# --- entropy


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_entropy_is_scipys_in_nats(dtype, scale):
    logits = (scale * mx.random.normal((500,), key=mx.random.key(1))).astype(dtype)
    probs = scipy.special.softmax(np.array(logits.astype(mx.float32)).astype(np.float64))
    assert module.entropy(logits) == pytest.approx(scipy.stats.entropy(probs), rel=1e-5, abs=1e-6)


def logits_of(nats):
    """Verify logits of three rows, row 0 with this entropy: 64 tokens, one above the others."""
    low, high = 0.0, 60.0
    for _ in range(60):
        lead = (low + high) / 2
        row = np.zeros(64)
        row[0] = lead
        above = scipy.stats.entropy(scipy.special.softmax(row)) > nats
        low, high = (lead, high) if above else (low, lead)
    certain = np.eye(64)[:2] * 80
    return mx.array(np.vstack([row, certain])).astype(mx.float32)


@pytest.mark.parametrize(
    ("nats", "size"), [(0.01, 8), (0.45, 8), (0.55, 4), (1.9, 4), (2.1, 2), (4.0, 2)]
)
def test_entropy_of_verify_row_0_sets_the_next_block(nats, size):
    policy = module.EntropyPolicy(PUBLISHED, 4, 0.5, 2.0)
    logits = logits_of(nats)
    assert module.entropy(logits[0]) == pytest.approx(nats, abs=1e-3)
    play(policy, [0], logits)
    assert policy.block_size() == size
    play(policy, [0], logits_of(0.01))
    assert policy.block_size() == 8  # only the last cycle counts


def test_the_first_block_of_the_entropy_policy_is_the_largest():
    assert module.EntropyPolicy([4, 8, 2], 4, 0.5, 2.0).block_size() == 8
    assert module.EntropyPolicy([4, 8, 2], 4, 0.0, 0.0).block_size() == 8


def test_bounds_of_the_entropy_policy_are_inclusive():
    logits = logits_of(1.0)
    exact = module.entropy(logits[0])
    below, above = (float(np.nextafter(exact, end)) for end in (0, 9))
    for low, high, size in [(exact, 9, 8), (below, above, 4), (below, exact, 2), (exact, exact, 8)]:
        policy = module.EntropyPolicy(PUBLISHED, 4, low, high)
        policy.observe(cycle_of(8, 0), logits)
        assert policy.block_size() == size


# --- survival


def survival_rule(allowed, decay, start, repaired, history):
    """The sheet's rule, from the whole past."""
    estimate = start
    for size, accepted in history:
        if repaired and accepted == size - 1:
            larger = [k for k in allowed if k > size]
            accepted = min(larger) - 1 if larger else size - 1
        estimate = decay * estimate + (1 - decay) * accepted
    reached = [k for k in allowed if k - 1 <= estimate + 1]
    return max(reached) if reached else min(allowed)


@settings(deadline=None, max_examples=150)
@given(SIZES, DECAYS, st.floats(0, 12), st.booleans(), WANTED)
def test_survival_policy_is_its_rule(allowed, decay, start, repaired, wanted):
    seen = play(module.SurvivalPolicy(allowed, decay, start, repaired), wanted)
    for place, (size, _) in enumerate(seen):
        assert size == survival_rule(allowed, decay, start, repaired, seen[:place])
        assert size in allowed


@settings(deadline=None, max_examples=150)
@given(WANTED)
def test_the_published_survival_policy_locks_on_any_text(wanted):
    seen = play(module.SurvivalPolicy(PUBLISHED, 0.7, 1.0, repaired=False), wanted)
    assert {size for size, _ in seen} <= {2}


@settings(deadline=None, max_examples=100)
@given(WANTED, SIZES, DECAYS)
def test_the_repaired_one_climbs_on_full_blocks_from_any_past_and_comes_back(
    wanted, allowed, decay
):
    policy = module.SurvivalPolicy(allowed, decay, 1.0, repaired=True)
    play(policy, wanted)
    long = 100 + int(100 / (1 - decay))
    play(policy, [99] * long)
    assert policy.block_size() == max(allowed)
    if min(allowed) > 1:  # a block of one offers nothing that could be refused
        play(policy, [0] * long)
        assert policy.block_size() == max([k for k in allowed if k <= 2], default=min(allowed))


def test_the_repaired_one_climbs_within_a_few_cycles_at_the_published_constants():
    policy = module.SurvivalPolicy(PUBLISHED, 0.7, 1.0, repaired=True)
    assert [size for size, _ in play(policy, [9] * 9)] == [2, 2, 4, 4, 4, 4, 4, 8, 8]
    assert [size for size, _ in play(policy, [0] * 5)] == [8, 4, 4, 4, 2]


def test_a_block_that_is_not_full_counts_as_it_is():
    policies = [module.SurvivalPolicy([4, 8], 0.7, 1.0, repaired=r) for r in (False, True)]
    assert play(policies[0], [2, 1, 0, 2] * 5) == play(policies[1], [2, 1, 0, 2] * 5)


# --- expected value


def value_policy(allowed=PUBLISHED, default=4, decay=0.85, tries=3, every=16, cost=COST):
    return module.ExpectedValuePolicy(allowed, default, decay, tries, every, cost)


def value_rule(allowed, default, decay, tries, every, cost, history):
    """The sheet's rule, from the whole past."""
    order = [size for size in allowed for _ in range(tries)]
    if len(history) < len(order):
        return order[len(history)]
    cycle = len(history) + 1
    if cycle % every == 0:
        return sorted(allowed)[(cycle // every) % len(allowed)]
    if not cost:
        return default
    best, best_value = None, -1.0
    for size in allowed:
        accepted = [a for k, a in history if k == size]
        mean = float(accepted[0])
        for sample in accepted[1:]:
            mean = decay * mean + (1 - decay) * sample
        if (mean + 2) / cost[size] > best_value:
            best, best_value = size, (mean + 2) / cost[size]
    return best


@settings(deadline=None, max_examples=150)
@given(
    SIZES,
    DECAYS,
    st.integers(1, 4),
    st.integers(1, 9),
    st.booleans(),
    st.lists(st.integers(1, 3), min_size=12, max_size=12),
    WANTED,
)
def test_expected_value_policy_is_its_rule(allowed, decay, tries, every, priced, costs, wanted):
    cost = {size: float(costs[size - 1]) for size in allowed} if priced else {}
    rule = (allowed, allowed[-1], decay, tries, every, cost)
    seen = play(module.ExpectedValuePolicy(*rule), wanted)
    for place, (size, _) in enumerate(seen):
        assert size == value_rule(*rule, seen[:place])
        assert size in allowed


def test_first_each_size_is_tried_in_the_order_listed():
    assert [k for k, _ in play(value_policy(), [0] * 9)] == [2, 2, 2, 4, 4, 4, 8, 8, 8]
    listed = [8, 2, 4]
    assert [k for k, _ in play(value_policy(listed), [0] * 9)] == [8, 8, 8, 2, 2, 2, 4, 4, 4]


@pytest.mark.parametrize("listed", [[2, 4, 8], [8, 4, 2]])
def test_every_16th_cycle_explores_in_rising_order(listed):
    cost = {2: 1.0, 4: 50.0, 8: 50.0}
    sizes = [k for k, _ in play(value_policy(listed, cost=cost), [0] * 96)]
    explored = {place: size for place, size in enumerate(sizes, start=1) if place % 16 == 0}
    assert explored == {16: 4, 32: 8, 48: 2, 64: 4, 80: 8, 96: 2}
    others = [k for place, k in enumerate(sizes, start=1) if place > 9 and place % 16]
    assert set(others) == {2}


@pytest.mark.parametrize(("wanted", "size"), [(0, 2), (3, 4), (9, 8)])
def test_most_tokens_a_millisecond_is_taken(wanted, size):
    policy = value_policy()
    play(policy, [wanted] * 9)
    assert policy.block_size() == size


def test_the_average_forgets_by_its_decay():
    policy = value_policy([2, 4], 2, 0.85, 1, 1000, {2: 1.0, 4: 1.0})
    play(policy, [0, 3])  # m_2 = 0, m_4 = 3, and 3 * 0.85 ** 15 > 0.25 > 3 * 0.85 ** 16
    sizes = [k for k, _ in play(policy, [0] * 20)]
    assert sizes == [4] * 20  # it stays above 0, which is all that K=2 has
    policy = value_policy([2, 4], 2, 0.85, 1, 1000, {2: 0.9, 4: 1.0})
    play(policy, [0, 3])  # K=2 is worth 2 / 0.9 = 2.222, so K=4 goes once m_4 < 0.222
    assert [k for k, _ in play(policy, [0] * 20)].index(2) == 17


def test_of_equal_values_the_first_listed_is_taken():
    even = dict.fromkeys(PUBLISHED, 50.0)
    for listed in ([2, 4, 8], [4, 8, 2], [8, 2, 4]):
        policy = value_policy(listed, cost=even)
        play(policy, [0] * 9)
        assert policy.block_size() == listed[0]


def test_without_costs_the_default_is_taken_after_the_first_tries():
    sizes = [k for k, _ in play(value_policy(default=8, cost={}), [3] * 40)]
    assert sizes[:9] == [2, 2, 2, 4, 4, 4, 8, 8, 8]
    assert {k for place, k in enumerate(sizes, start=1) if place > 9 and place % 16} == {8}
    assert (sizes[15], sizes[31]) == (4, 8)


def test_a_block_cut_short_by_the_end_of_the_context_teaches_nothing():
    policy, other = value_policy(), value_policy()
    play(policy, [1] * 12)
    play(other, [1] * 12)
    policy.observe(cycle_of(3, 2, 13), ANY_LOGITS)
    assert [k for k, _ in play(policy, [1] * 30)] == [k for k, _ in play(other, [1] * 30)]


# --- all of them


def make(name, allowed, default=None):
    default = allowed[0] if default is None and allowed else default
    return {
        "entropy": lambda: module.EntropyPolicy(allowed, default, 0.5, 2.0),
        "survival": lambda: module.SurvivalPolicy(allowed, 0.7, 1.0, repaired=False),
        "repaired": lambda: module.SurvivalPolicy(allowed, 0.7, 1.0, repaired=True),
        "value": lambda: module.ExpectedValuePolicy(allowed, default, 0.85, 3, 16, {}),
    }[name]()


NAMES = ["entropy", "survival", "repaired", "value"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("allowed", [[], [2, 2], [0, 2], [-1], [True], [2.0], ["2"]])
def test_allowed_sizes_are_positive_whole_numbers_each_once(name, allowed):
    with pytest.raises(UserError, match="allowed"):
        make(name, allowed)


@pytest.mark.parametrize("name", ["entropy", "value"])
@pytest.mark.parametrize("default", [3, 0, "4"])
def test_a_default_must_be_allowed(name, default):
    with pytest.raises(UserError, match="default"):
        make(name, PUBLISHED, default)


@pytest.mark.parametrize("bounds", [(2.0, 0.5), (-1.0, 2.0), (float("nan"), 2.0)])
def test_entropy_bounds_are_in_order(bounds):
    with pytest.raises(UserError, match="entropies"):
        module.EntropyPolicy(PUBLISHED, 4, *bounds)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_decay_lies_between_0_and_1(decay):
    with pytest.raises(UserError, match="decay"):
        module.SurvivalPolicy(PUBLISHED, decay, 1.0, repaired=False)
    with pytest.raises(UserError, match="decay"):
        value_policy(decay=decay)


@pytest.mark.parametrize("start", [-0.5, float("nan"), float("inf")])
def test_a_start_is_a_number_of_tokens(start):
    with pytest.raises(UserError, match="start"):
        module.SurvivalPolicy(PUBLISHED, 0.7, start, repaired=False)


@pytest.mark.parametrize("bad", [{"tries": 0}, {"every": 0}, {"tries": True}, {"every": 2.5}])
def test_counts_of_the_expected_value_policy_are_positive(bad):
    with pytest.raises(UserError, match=r"min_samples|explore_every"):
        value_policy(**bad)


@pytest.mark.parametrize(
    "cost",
    [{2: 1.0, 4: 1.0}, {**COST, 4: 0.0}, {**COST, 8: float("inf")}, {**COST, 2: float("nan")}],
)
def test_a_cost_table_prices_every_allowed_size(cost):
    with pytest.raises(UserError, match="cost_ms of block size"):
        value_policy(cost=cost)


@pytest.mark.parametrize("name", NAMES)
def test_a_generation_under_a_policy_is_the_native_one_and_stays_in_its_set(adapted, text, name):
    target, adapter = adapted
    runs = [
        decode(
            target,
            UnoDrafter(target, adapter, seed=5),
            GreedyAcceptance(),
            make(name, PUBLISHED),
            parts.PROMPT,
            24,
        )
        for _ in range(2)
    ]
    assert runs[0].tokens == text[len(parts.PROMPT) :][:24]
    widths = [[cycle.block_size for cycle in run.cycles] for run in runs]
    assert widths[0] == widths[1]
    assert set(widths[0]) <= set(PUBLISHED)
    assert runs[0].forwards == 1 + 2 * len(runs[0].cycles)
