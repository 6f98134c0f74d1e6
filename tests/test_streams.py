import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft import streams
from diffdraft.streams import STREAMS, splitmix64, stream_key

# Published with the original experiment: keys of seed 20260903 at step 0.
PUBLISHED = {
    "train_noise": (0x545241494E5F4E5A, 0x6968999E92C72A55),
    "train_corruption_rate": (0x545241494E5F5254, 0xDA04FB4075C7D48A),
    "eval_noise": (0x4556414C5F4E5A5A, 0x130E775F61EA0C92),
    "eval_sampling": (0x4556414C5F53504C, 0xB834D8602D137CF2),
    "data_sampling": (0x444154415F53504C, 0xD810757008C58A8B),
    "bench_noise": (0x42454E43485F4E5A, 0x0AC88C86B1050400),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_ids_and_keys_are_the_published_ones(name):
    assert (STREAMS[name], stream_key(20260903, name, 0)) == PUBLISHED[name]


def test_no_other_streams():
    assert set(STREAMS) == set(PUBLISHED)


def test_splitmix64_reference():
    # The generator seeded with 0 adds its increment, then finalises: first outputs of the original.
    increment = 0x9E3779B97F4A7C15
    assert splitmix64(increment) == 0xE220A8397B1DCDAF
    assert splitmix64(2 * increment % 2**64) == 0x6E789E6AA1B965F4


@given(st.integers(0, 2**64 - 1), st.sampled_from(sorted(STREAMS)), st.integers(0, 2**40))
def test_keys_fit_64_bits_and_steps_differ(seed, name, step):
    key = stream_key(seed, name, step)
    assert 0 <= key < 2**64
    assert key != stream_key(seed, name, step + 1)


def test_streams_seeds_and_steps_do_not_collide():
    keys = {
        stream_key(seed, name, step) for seed in range(20) for name in STREAMS for step in range(20)
    }
    assert len(keys) == 20 * len(STREAMS) * 20


def test_unknown_stream():
    with pytest.raises(KeyError):
        stream_key(0, "lunch", 0)


def test_the_module_imports_nothing():
    tree = ast.parse(Path(streams.__file__).read_text())
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
