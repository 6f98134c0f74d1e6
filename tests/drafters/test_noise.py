from diffdraft.drafters import noise as module

# isort: split
import mlx.core as mx
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.streams import STREAMS


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**64 - 1), st.integers(2, 300), st.integers(0, 50))
def test_ids_lie_in_the_range(seed, noise_high, count):
    ids = module.noise_ids(module.random_key(seed, "bench_noise", 1), (count,), noise_high)
    assert ids.shape == (count,)
    assert all(1 <= i < noise_high for i in ids.tolist())


def test_uniform_over_the_whole_range():
    ids = module.noise_ids(module.random_key(1, "eval_noise", 0), (6000,), 7).tolist()
    counts = [ids.count(i) for i in range(1, 7)]
    assert sum(counts) == 6000
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 20.5  # chi-squared, 5 df, 0.1 %


def test_keyed_by_seed_stream_and_step():
    def draw(seed, stream, step):
        return tuple(module.noise_ids(module.random_key(seed, stream, step), (8,), 1000).tolist())

    assert draw(1, "bench_noise", 2) == draw(1, "bench_noise", 2)
    draws = {draw(s, name, step) for s in (1, 2) for name in STREAMS for step in (1, 2)}
    assert len(draws) == 2 * len(STREAMS) * 2


def test_the_global_generator_is_left_alone():
    mx.random.seed(4)
    before = mx.random.uniform().item()
    mx.random.seed(4)
    mx.eval(module.noise_ids(module.random_key(1, "bench_noise", 1), (50,), 100))
    assert mx.random.uniform().item() == before
