"""Adaptive widths: the policies of qwen-block-diffusion-lab (Act IV-S), and one of them repaired.

Each chooses among `allowed` block sizes. An instance carries the state of one generation.
"""

import math
from collections.abc import Mapping, Sequence

import mlx.core as mx

from diffdraft.decoding.trace import Cycle
from diffdraft.drafters.sizes import check_size
from diffdraft.errors import UserError


def entropy(logits_V: mx.array) -> float:
    """Entropy, in nats, of the softmax of finite logits [V]; computed in float32."""
    wide_V = logits_V.astype(mx.float32)
    log_probs_V = wide_V - mx.logsumexp(wide_V)
    nats: float = -mx.sum(mx.exp(log_probs_V) * log_probs_V).item()  # type: ignore[assignment]
    return nats


def _average(before: float, sample: float, decay: float) -> float:
    return decay * before + (1 - decay) * sample


class EntropyPolicy:
    """Wide after a sure target, narrow after an unsure one.

    H is the entropy (nats) of verify row 0 of the cycle before, the target's own distribution of
    the given token; it counts as 0 before the first cycle. The block is the largest allowed where
    H <= `low`, the smallest where H >= `high`, and `default` between.

    Raises:
        UserError: a size that is not a positive whole number, or stands twice; a default that is
            not allowed; or not 0 <= `low` <= `high`.
    """

    def __init__(self, allowed: Sequence[int], default: int, low: float, high: float) -> None:
        self._allowed, self._default = _checked(allowed, default), default
        if not 0 <= low <= high:
            raise UserError("policy", "entropies", f"{low}, {high}", "0 <= low <= high")
        self._low, self._high = low, high
        self._entropy = 0.0

    def block_size(self) -> int:
        """See the class."""
        if self._entropy <= self._low:
            return max(self._allowed)
        return min(self._allowed) if self._entropy >= self._high else self._default

    def observe(self, cycle: Cycle, logits_WV: mx.array) -> None:
        """Note the entropy of verify row 0."""
        self._entropy = entropy(logits_WV[0])


class SurvivalPolicy:
    """One slot more than lately survived.

    e <- `decay` e + (1 - `decay`) accepted, from e = `start`; the block is the largest allowed K
    with K - 1 <= e + 1, else the smallest.

    As published this locks: e never exceeds the largest number that the present block can accept,
    so a larger one that is more than a slot away is never tried. A fully accepted block says only
    that at least K - 1 tokens would have been. `repaired` counts it as the K' - 1 of the next
    larger allowed K' (of K itself if it is the largest): full blocks then always reach K', and
    whether it pays shows there.

    Raises:
        UserError: a size that is not a positive whole number, or stands twice; a decay outside
            (0, 1); or a negative start.
    """

    def __init__(self, allowed: Sequence[int], decay: float, start: float, repaired: bool) -> None:
        self._allowed = sorted(_checked(allowed))
        self._decay = _checked_decay(decay)
        if not 0 <= start < math.inf:
            raise UserError("policy", "start", start, "a number of tokens, 0 or more")
        self._estimate = float(start)
        self._repaired = repaired

    def block_size(self) -> int:
        """See the class."""
        reached = [size for size in self._allowed if size - 1 <= self._estimate + 1]
        return max(reached, default=self._allowed[0])

    def observe(self, cycle: Cycle, logits_WV: mx.array) -> None:
        """Move the estimate towards what was accepted."""
        self._estimate = _average(self._estimate, self._count(cycle), self._decay)

    def _count(self, cycle: Cycle) -> int:
        if not self._repaired or cycle.accepted < cycle.block_size - 1:
            return cycle.accepted
        larger = (size for size in self._allowed if size > cycle.block_size)
        return next(larger, cycle.block_size) - 1


class ExpectedValuePolicy:
    """The block with most expected tokens a millisecond, by what each has accepted so far.

    m_K is an exponential average of the accepted tokens at K: the first sample, then
    m_K <- `decay` m_K + (1 - `decay`) accepted. Each allowed K is tried `min_samples` times first,
    in the order listed. Then every `explore_every`-th cycle c (counted from 1) explores
    sorted(allowed)[(c // explore_every) mod n], and the others take the K of the largest
    (m_K + 2) / `cost_ms`[K], the first listed of equal ones. Without a cost table they take
    `default`.

    Raises:
        UserError: a size that is not a positive whole number, or stands twice; a default that is
            not allowed; a decay outside (0, 1); a count below 1; or a table that lacks an allowed
            size, or has a cost that is not positive and finite.
    """

    def __init__(
        self,
        allowed: Sequence[int],
        default: int,
        decay: float,
        min_samples: int,
        explore_every: int,
        cost_ms: Mapping[int, float],
    ) -> None:
        check_size("policy", "min_samples", min_samples)
        check_size("policy", "explore_every", explore_every)
        self._allowed, self._default = _checked(allowed, default), default
        self._decay = _checked_decay(decay)
        self._min_samples, self._explore_every = min_samples, explore_every
        self._cost_ms = _checked_costs(cost_ms, self._allowed)
        self._mean: dict[int, float] = {}
        self._samples = dict.fromkeys(self._allowed, 0)

    def block_size(self) -> int:
        """See the class."""
        untried = (size for size in self._allowed if self._samples[size] < self._min_samples)
        size = next(untried, None)
        if size is not None:
            return size
        turn, rest = divmod(sum(self._samples.values()) + 1, self._explore_every)
        if rest == 0:
            return sorted(self._allowed)[turn % len(self._allowed)]
        return max(self._allowed, key=self._value) if self._cost_ms else self._default

    def observe(self, cycle: Cycle, logits_WV: mx.array) -> None:
        """Take the sample into the average of its block size."""
        size, accepted = cycle.block_size, float(cycle.accepted)
        if size not in self._samples:  # cut short by the end of the context
            return
        before = self._mean.get(size)
        moved = accepted if before is None else _average(before, accepted, self._decay)
        self._mean[size] = moved
        self._samples[size] += 1

    def _value(self, size: int) -> float:
        """Tokens a millisecond: accepted ones, the given one, and the target's own after them."""
        return (self._mean[size] + 2) / self._cost_ms[size]


def _checked(allowed: Sequence[int], default: int | None = None) -> tuple[int, ...]:
    for size in allowed:
        check_size("policy", "allowed block size", size)
    if not allowed or len(set(allowed)) < len(allowed):
        raise UserError("policy", "allowed", list(allowed), "block sizes, each once")
    if default is not None and default not in allowed:
        raise UserError("policy", "default", default, f"one of the allowed {list(allowed)}")
    return tuple(allowed)


def _checked_decay(decay: float) -> float:
    if not 0 < decay < 1:
        raise UserError("policy", "decay", decay, "a number between 0 and 1")
    return decay


def _checked_costs(cost_ms: Mapping[int, float], allowed: Sequence[int]) -> dict[int, float]:
    """The costs of the allowed sizes; of none at all if the table is empty."""
    for size in allowed if cost_ms else ():
        cost = cost_ms.get(size)
        if cost is None or not 0 < cost < math.inf:
            raise UserError("policy", f"cost_ms of block size {size}", cost, "milliseconds above 0")
    return dict(cost_ms)
