"""Load a target: an ordinary model folder, through `mlx_lm.load`, frozen and fingerprinted.

A target can be cast to another dtype. Its `fingerprint` stays that of the weights in the folder,
because that is what an adapter is bound to: a cast copy is the same target in other arithmetic.
`loaded_fingerprint` is of the weights as they are in memory, and shows that nothing moved them.
"""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import mlx.core as mx
import mlx_lm
from mlx.utils import tree_flatten, tree_unflatten

from diffdraft.errors import UserError
from diffdraft.layers.walk import text_model
from diffdraft.settings_files import check_no_code
from diffdraft.target_record import check_settings
from diffdraft.targets.fingerprint import ADAPTER_TENSORS, fingerprint
from diffdraft.weight_folder import check_weights

Dtype = Literal["float32", "bfloat16"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
MODEL_FILES = ("config.json", "tokenizer.json")
LINE = 240  # characters of what went wrong inside: a list of missing tensors can be endless
KEPT_TENSORS = ("A_log", *ADAPTER_TENSORS)  # `mlx_lm` casts no A_log either; adapters are float32


@dataclass
class Target:
    """A frozen autoregressive model, its tokenizer, and what drafting has to know of them.

    `noise_high` is the upper bound H of noise ids, which are drawn from [1, H). `fingerprint` is
    of the weights before any cast, `loaded_fingerprint` of those in memory.
    """

    model: Any
    tokenizer: Any
    vocab_size: int
    noise_high: int
    fingerprint: str
    loaded_fingerprint: str

    def check_unchanged(self) -> None:
        """Raise if a weight has moved since loading: every measurement would be void."""
        now = fingerprint(self.model)
        if now != self.loaded_fingerprint:
            raise RuntimeError(f"target weights changed: {self.loaded_fingerprint} became {now}")


def load_target(folder: str | Path, dtype: Dtype | None = None) -> Target:
    """Load the model folder, cast it where a dtype is given, and freeze it.

    Raises `UserError` when the folder lacks a file or a tensor that its model has, when one is cut,
    left over or of another shape, when its settings name code to run or are not those that it was
    made with, and for another dtype.
    """
    _check_dtype(dtype)
    folder = Path(folder)
    for name in MODEL_FILES:
        if not (folder / name).is_file():
            raise UserError(folder / name, "file", "nothing there", "a model folder with it")
    check_no_code(folder)
    check_settings(folder)
    check_weights(folder)
    try:
        model, tokenizer = mlx_lm.load(str(folder))
    except Exception as error:  # what a bad folder raises inside is not for us to list
        found = textwrap.shorten(f"{type(error).__name__} {error}", LINE)
        raise UserError(folder, "model folder", found, "whole files that mlx_lm loads") from None
    return target_of(model, tokenizer, dtype)


def target_of(model: Any, tokenizer: Any, dtype: Dtype | None = None) -> Target:
    """Freeze a model in memory and make a target of it; a dtype casts the model in place.

    Raises `UserError` for another dtype.
    """
    _check_dtype(dtype)
    model.eval()
    model.freeze()
    mx.eval(model.parameters())
    source = fingerprint(model)
    if dtype is not None:
        cast_weights(model, dtype)
    loaded = source if dtype is None else fingerprint(model)
    vocab_size = text_model(model).args.vocab_size
    high = noise_high(tokenizer, vocab_size)
    return Target(model, tokenizer, vocab_size, high, source, loaded)


def cast_weights(model: Any, dtype: Dtype) -> None:
    """Cast every floating-point weight in place but A_log and the tensors of an adapter."""
    cast = [
        (name, tensor.astype(getattr(mx, dtype)))
        for name, tensor in tree_flatten(model.parameters())
        if mx.issubdtype(tensor.dtype, mx.floating) and name.rsplit(".", 1)[-1] not in KEPT_TENSORS
    ]
    model.update(tree_unflatten(cast))
    mx.eval(model.parameters())


def _check_dtype(dtype: str | None) -> None:
    if dtype is not None and dtype not in DTYPES:
        raise UserError("target", "dtype", dtype, " or ".join(DTYPES))


def noise_high(tokenizer: Any, vocab_size: int) -> int:
    """Upper bound of noise ids: the first of mask, padding and end id above 1, else the vocabulary.

    (qwen-block-diffusion-lab, draft noise.) The special token itself is never drawn.
    """
    for name in ("mask_token_id", "pad_token_id", "eos_token_id"):
        token_id = getattr(tokenizer, name, None)
        if isinstance(token_id, int) and token_id > 1:
            return min(token_id, vocab_size)
    return vocab_size
