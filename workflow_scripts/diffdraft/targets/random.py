"""A tiny random target of the real architecture, for tests: no training, no download."""

from typing import Any

from diffdraft.targets.architecture import build, initialise
from diffdraft.targets.load import Target, target_of

TINY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 61,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "rope_parameters": {"type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
}


class IdTokenizer:
    """A stand-in tokenizer: text is ids separated by blanks; the last id ends a text."""

    eos_token_id = TINY["vocab_size"] - 1  # type: ignore[operator]

    def encode(self, text: str) -> list[int]:
        """Ids of a text such as "3 14 15"."""
        return [int(word) for word in text.split()]

    def decode(self, ids: list[int]) -> str:
        """The text of some ids."""
        return " ".join(map(str, ids))


def make_tiny_random(seed: int, **overrides: Any) -> Target:
    """A random hybrid target: three linear layers, then one of full attention.

    The weights are wide enough (standard deviation 0.2) that argmaxes differ between contexts.
    """
    model = build({**TINY, **overrides})
    initialise(model, seed, init_std=0.2)
    return target_of(model, IdTokenizer())
