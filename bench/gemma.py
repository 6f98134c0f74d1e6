"""Gemma 3 270M, converted: is it the model, and do a few more rows cost little?

Needs build/gemma3_270m/target, and says so and measures nothing where it is not there. Logits are
compared with a reference in NumPy from the same tensors, before and after the sliding window is
full; widths are timed in turn on a cache as long as a short prompt.
"""

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from tests.targets import reference_gemma

from bench import Measured
from bench._clock import fastest, seconds
from bench.decoding import CONTEXT, against_mlx_lm
from diffdraft.decoding.cache_state import CacheSnapshot, evaluate
from diffdraft.decoding.transaction import SnapshotTransaction
from diffdraft.layers.tensors import load_tensors
from diffdraft.layers.walk import head, text_model
from diffdraft.measure.workloads import PROMPTS_PER_CATEGORY, encode_workload, load_workload
from diffdraft.targets.load import Target, load_target

FOLDER = Path("build/gemma3_270m/target")
WORKLOAD = Path("config/workloads/general.yaml")
MAKE = (
    "make gemma && .venv/bin/snakemake --cores all --config profile=gemma3_270m"
    f" -- {FOLDER}/model.safetensors"
)
POSITIONS = 64
STARTS = {"from the first position on": 0, "past a full sliding window": 576}
WIDE, NARROW, CACHED, ROUNDS = 5, 1, 32, 15
GENERATED, TEXTS = 24, 3


def measure() -> Iterator[Measured]:
    """Logits against the reference, the cost of width, and native decoding against mlx_lm."""
    if not (FOLDER / "model.safetensors").is_file():
        print(f"skipped bench.gemma: {FOLDER}/model.safetensors is not there; to make it: {MAKE}")
        return
    target = load_target(FOLDER)
    suite = load_workload(WORKLOAD)
    text = "\n\n".join(prompt.text for prompt in suite.prompts)
    ids = target.tokenizer.encode(f"{text}\n\n{text}")
    yield from against_reference(target, ids)
    yield width_against_width(target, ids[:CACHED])
    prompts = encode_workload(suite, target.tokenizer, GENERATED, CONTEXT)
    yield against_mlx_lm(target, prompts[::PROMPTS_PER_CATEGORY][:TEXTS], GENERATED)


def against_reference(target: Target, ids: list[int]) -> Iterator[Measured]:
    """Largest difference of a logit, and positions with the same argmax."""
    config = reference_gemma.read_config(FOLDER)
    tensors, _ = load_tensors(FOLDER / "model.safetensors")
    arrays = {name: np.array(tensor) for name, tensor in tensors.items()}
    weights = reference_gemma.from_folder(arrays, int(config["num_hidden_layers"]))
    for where, start in STARTS.items():
        text = ids[: start + POSITIONS]
        expected_TV = reference_gemma.logits(weights, config, text, start)
        h_BTD = text_model(target.model).model(mx.array([text]))
        found_TV = np.array(head(target.model, h_BTD[:, start:])[0])
        yield Measured(
            f"logits against the reference, {POSITIONS} positions {where}: largest difference",
            float(np.abs(found_TV - expected_TV).max()),
            1e-3,
            unit="",
            at_most=True,
            note=f"logits reach from {expected_TV.min():.1f} to {expected_TV.max():.1f}",
        )
        yield Measured(
            f"positions of these with the argmax of the reference, of {POSITIONS}",
            int((found_TV.argmax(-1) == expected_TV.argmax(-1)).sum()),
            POSITIONS,
            unit="",
        )


def width_against_width(target: Target, ids: list[int]) -> Measured:
    """Time of a wide verify forward over that of a narrow one, in turn, median of the ratios."""
    cache = make_prompt_cache(target.model)
    text_model(target.model).model(mx.array([ids]), cache)
    evaluate(cache)
    before = CacheSnapshot.take(cache)

    def verify(width: int) -> float:
        transaction = SnapshotTransaction(target.model, cache)
        spent = seconds(lambda: transaction.run(ids[:width]))
        before.restore()
        return spent

    times = np.array([[verify(width) for width in (NARROW, WIDE)] for _ in range(1 + ROUNDS)])[1:]
    narrow, wide = 1000 * np.median(times, axis=0)
    return Measured(
        f"verify forward of width {WIDE} against width {NARROW}, {CACHED} tokens cached",
        float(np.median(times[:, 1] / times[:, 0])),
        1.3,
        at_most=True,
        note=f"{wide:.1f} ms and {narrow:.1f} ms, medians of {ROUNDS}; {one_row_products()}",
    )


def one_row_products() -> str:
    """All products of a native step as MLX does them with one row, and NumPy as matrix by vector.

    Where the second is faster, native decoding could be, and drafting would gain less.
    """
    tensors, _ = load_tensors(FOLDER / "model.safetensors")
    weights = [weight for weight in tensors.values() if weight.ndim == 2]
    pairs = [(mx.ones((1, weight.shape[1])), weight) for weight in weights]
    arrays = [(np.array(weight), np.ones(weight.shape[1], np.float32)) for weight in weights]
    mlx = fastest(lambda: [mx.eval(row @ weight.T) for row, weight in pairs])
    numpy = fastest(lambda: [array @ vector for array, vector in arrays])
    return (
        f"products of one row alone: MLX {1000 * mlx:.0f} ms, NumPy's matrix by vector"
        f" {1000 * numpy:.0f} ms"
    )
