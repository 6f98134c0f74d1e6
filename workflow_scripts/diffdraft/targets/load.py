"""Load a target: an ordinary model folder, through `mlx_lm.load`, frozen and fingerprinted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm

from diffdraft.errors import UserError
from diffdraft.layers.walk import text_model
from diffdraft.targets.fingerprint import fingerprint

MODEL_FILES = ("config.json", "tokenizer.json")


@dataclass
class Target:
    """A frozen autoregressive model, its tokenizer, and what drafting has to know of them.

    `noise_high` is the upper bound H of noise ids, which are drawn from [1, H).
    """

    model: Any
    tokenizer: Any
    vocab_size: int
    noise_high: int
    fingerprint: str

    def check_unchanged(self) -> None:
        """Raise if a weight has moved since loading: every measurement would be void."""
        now = fingerprint(self.model)
        if now != self.fingerprint:
            raise RuntimeError(f"target weights changed: {self.fingerprint} became {now}")


def load_target(folder: str | Path) -> Target:
    """Load the model folder and freeze it.

    Raises `UserError` when the folder lacks a file that a model folder has.
    """
    folder = Path(folder)
    for name in MODEL_FILES:
        if not (folder / name).is_file():
            raise UserError(folder / name, "file", "nothing there", "a model folder with it")
    if not list(folder.glob("*.safetensors")):
        raise UserError(folder, "weights", "no *.safetensors", "weights in safetensors form")
    try:
        model, tokenizer = mlx_lm.load(str(folder))
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        found = f"{type(error).__name__} {error}"
        raise UserError(folder, "model folder", found, "whole files that mlx_lm loads") from None
    return target_of(model, tokenizer)


def target_of(model: Any, tokenizer: Any) -> Target:
    """Freeze a model in memory and make a target of it."""
    model.eval()
    model.freeze()
    mx.eval(model.parameters())
    vocab_size = text_model(model).args.vocab_size
    return Target(
        model, tokenizer, vocab_size, noise_high(tokenizer, vocab_size), fingerprint(model)
    )


def noise_high(tokenizer: Any, vocab_size: int) -> int:
    """Upper bound of noise ids: the first of mask, padding and end id above 1, else the vocabulary.

    (qwen-block-diffusion-lab, draft noise.) The special token itself is never drawn.
    """
    for name in ("mask_token_id", "pad_token_id", "eos_token_id"):
        token_id = getattr(tokenizer, name, None)
        if isinstance(token_id, int) and token_id > 1:
            return min(token_id, vocab_size)
    return vocab_size
