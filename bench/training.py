"""What makes training affordable: the chunked rule, and every block of a window supervised."""

from collections.abc import Iterator

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from bench import Measured
from bench._clock import fastest
from diffdraft.config import Profile, load_profile
from diffdraft.config_adapters import AdapterSettings
from diffdraft.layers.lora import Adapter
from diffdraft.targets.architecture import build, initialise
from diffdraft.targets.load import Target, target_of
from diffdraft.targets.random import IdTokenizer
from diffdraft.training.adapter import AdapterTask, adapter_spec
from diffdraft.training.target import LanguageModelTask

PROFILE = "config/profiles/tiny.yaml"


def measure() -> Iterator[Measured]:
    """Both bars, on the shapes of the tiny profile with random weights and tokens."""
    profile = load_profile(PROFILE)
    yield chunked_against_loop(profile)
    yield every_block_against_one(profile)


def random_windows(profile: Profile, window: int, n: int = 64) -> np.ndarray:
    """Token windows [n, window]."""
    vocabulary = profile.target.architecture.vocab_size
    return np.random.default_rng(0).integers(1, vocabulary, (n, window)).astype(np.int32)


def chunked_against_loop(profile: Profile) -> Measured:
    """A step of target training at T = 128, against the same step through mlx-lm's forward."""
    settings = profile.target
    model = build(settings.architecture.model_dump())
    initialise(model, 0, settings.init_std)
    task = LanguageModelTask(model, random_windows(profile, 129), settings)

    def stock(ids_BT: mx.array) -> mx.array:
        logits = model(ids_BT[:, :-1])
        return nn.losses.cross_entropy(logits, ids_BT[:, 1:], reduction="mean")

    stock_grad = nn.value_and_grad(model, stock)
    batch = mx.array(task.windows[: settings.optimiser.batch_size])
    ours = fastest(lambda: mx.eval(task.loss_and_grads(0)))
    loop = fastest(lambda: mx.eval(stock_grad(batch)), repeats=3)
    return Measured(
        "training step with the chunked delta rule against mlx-lm's loop, T=128", loop / ours, 3
    )


def every_block_against_one(profile: Profile) -> Measured:
    """Supervised draft rows a second of the two layouts, same windows, batch and block size."""
    model = build(profile.target.architecture.model_dump())
    initialise(model, 0, profile.target.init_std)
    target = target_of(model, IdTokenizer())
    settings = profile.adapters["primary"]
    adapter = Adapter.attach(model, adapter_spec(settings))
    every = rows_per_second(target, adapter, settings, profile)
    suffix = settings.model_copy(update={"layout": "suffix"})
    one = rows_per_second(target, adapter, suffix, profile)
    return Measured(
        "supervised rows a second, every block of a window against one",
        every / one,
        8,
        note=f"{every:.0f} against {one:.0f} draft rows a second",
    )


def rows_per_second(
    target: Target, adapter: Adapter, settings: AdapterSettings, profile: Profile
) -> float:
    """Draft rows of a batch over the time of its loss and gradient."""
    task = AdapterTask(
        target, adapter, random_windows(profile, settings.optimiser.window), settings
    )
    seconds = fastest(lambda: mx.eval(task.loss_and_grads(0)), repeats=3)
    return settings.optimiser.batch_size * task.n_blocks * (settings.block_size - 1) / seconds
