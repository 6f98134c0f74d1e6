"""A verify forward of which any prefix can be committed to the cache.

Attention layers drop their newest rows. A linear layer has overwritten its state, so either every
state of the block is recorded on the way (`SnapshotTransaction`), or the last state is taken back
step by step (`RewindTransaction`), or the whole block is, and its prefix run again
(`ReplayTransaction`, one forward more: the oracle).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

from diffdraft.decoding.cache_state import CacheSnapshot, evaluate
from diffdraft.decoding.rewind import rewind
from diffdraft.layers.gated_delta import (
    DeltaSteps,
    delta_inputs,
    delta_output,
    recurrent_states,
)
from diffdraft.layers.walk import head, walk_layers


class Transaction(ABC):
    """One block: `run` it once, then `commit` a prefix of it once."""

    def __init__(self, model: Any, cache: list[Any]) -> None:
        self.model, self.cache = model, cache
        self.before = CacheSnapshot.take(cache)
        self.ids: list[int] = []
        self.open = False

    def run(self, ids: Sequence[int]) -> mx.array:
        """Forward over W tokens, frozen weights only; returns evaluated logits [W, V]."""
        if self.ids or not ids:
            raise ValueError("a transaction runs one block, of at least one token")
        self.ids, self.open = list(ids), True
        logits_BWV = self._forward(mx.array([self.ids], dtype=mx.int32))
        mx.eval(logits_BWV)
        return logits_BWV[0]

    def commit(self, rows: int) -> int:
        """Keep the first `rows` of the block (0 takes it back); returns forwards spent on it."""
        if not self.open:
            raise ValueError("nothing to commit: the block was not run, or is committed already")
        if not 0 <= rows <= len(self.ids):
            raise ValueError(f"cannot commit {rows} rows of a block of {len(self.ids)}")
        self.open = False
        spent = 0 if rows == len(self.ids) else self._keep(rows)
        if rows:
            evaluate(self.cache)
        self.before.check_length(rows)
        return spent

    @abstractmethod
    def _forward(self, ids_BW: mx.array) -> mx.array:
        """Run the block on the cache; returns logits [1, W, V]."""

    @abstractmethod
    def _keep(self, rows: int) -> int:
        """Make the cache what it would be after fewer than all rows; returns forwards spent."""


class ReplayTransaction(Transaction):
    """The model's own forward; a prefix costs a second one."""

    def _forward(self, ids_BW: mx.array) -> mx.array:
        return self.model(ids_BW, cache=self.cache)

    def _keep(self, rows: int) -> int:
        self.before.restore()
        if rows == 0:
            return 0
        self.model(mx.array([self.ids[:rows]], dtype=mx.int32), cache=self.cache)
        return 1


class _Recorded(NamedTuple):
    """A linear layer's convolution rows [1, 3 + W, U], W + 1 states [1, H, Dv, Dk], its steps."""

    conv_input_BRU: mx.array
    states_BHVK: list[mx.array]
    steps: DeltaSteps | None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self[0], *self[1], *(self.steps or ())))


class SnapshotTransaction(Transaction):
    """Linear layers step token by token and keep every state; a prefix costs no forward."""

    records_steps: ClassVar[bool] = False

    def __init__(self, model: Any, cache: list[Any]) -> None:
        super().__init__(model, cache)
        self.recorded: dict[int, _Recorded] = {}

    def _forward(self, ids_BW: mx.array) -> mx.array:
        if not any(isinstance(entry, ArraysCache) for entry in self.cache):
            return self.model(ids_BW, cache=self.cache)
        return head(self.model, walk_layers(self.model, ids_BW, self._attend, self._recur))

    def _attend(self, index: int, mixer: Any, x_BTD: mx.array) -> mx.array:
        entry = self.cache[index]
        mask = entry.make_mask(x_BTD.shape[1], return_array=False, window_size=None)
        return mixer(x_BTD, mask=mask, cache=entry)

    def _recur(self, index: int, mixer: Any, x_BTD: mx.array) -> mx.array:
        window_BWU, state_BHVK = self.cache[index].cache
        inputs = delta_inputs(mixer, x_BTD, window_BWU)
        y_BTHV, states = recurrent_states(inputs, state_BHVK)
        steps = DeltaSteps.of(inputs) if self.records_steps else None
        self.recorded[index] = _Recorded(inputs.conv_input_BRU, states, steps)
        self._set(index, x_BTD.shape[1], states[-1])
        return delta_output(mixer, y_BTHV, inputs.z_BTHV)

    def _set(self, index: int, rows: int, state_BHVK: mx.array) -> None:
        """Give a linear layer the convolution window and the state after `rows` tokens."""
        conv_input = self.recorded[index].conv_input_BRU
        kept = conv_input.shape[1] - len(self.ids)
        self.cache[index][0] = mx.contiguous(conv_input[:, rows : rows + kept])
        self.cache[index][1] = state_BHVK

    def _keep(self, rows: int) -> int:
        if rows == 0:
            self.before.restore()
            return 0
        self.before.move_attention(rows)
        for index in self.recorded:
            self._set(index, rows, self._state(index, rows))
        return 0

    def _state(self, index: int, rows: int) -> mx.array:
        """The state [1, H, Dv, Dk] of a linear layer after `rows` tokens."""
        return self.recorded[index].states_BHVK[rows]


class RewindTransaction(SnapshotTransaction):
    """As `SnapshotTransaction`, but the state is undone step by step from the last one.

    `rewind_steps` counts the steps to undo (one a head, layer and dropped token) and
    `rewind_fallbacks` those that the guard replaced by the recorded state. Taking back the whole
    block restores the snapshot, without a step.
    """

    # Largest growth of a rounding error before a head falls back; 100 is the limit of
    # qwen-block-diffusion-lab (docs/act4u2_transactional_state.md).
    AMPLIFICATION_LIMIT: ClassVar[float] = 100.0
    records_steps = True

    def __init__(self, model: Any, cache: list[Any]) -> None:
        super().__init__(model, cache)
        self.rewind_steps = 0
        self._fallbacks: list[mx.array] = []

    @property
    def rewind_fallbacks(self) -> int:
        """Waits for the counts, which a commit leaves on the device."""
        counts: list[Any] = [count.item() for count in self._fallbacks]
        return sum(counts)

    def _state(self, index: int, rows: int) -> mx.array:
        _, states, steps = self.recorded[index]
        assert steps is not None
        rewound = rewind(states, steps, rows, self.AMPLIFICATION_LIMIT)
        self.rewind_steps += rewound.steps
        self._fallbacks.append(rewound.fallbacks)
        return rewound.state_BHVK
