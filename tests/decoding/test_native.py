from diffdraft.decoding import native as module

# isort: split
import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step

from tests.decoding import parts


def test_equals_mlx_lm_generation(target, text):
    stock = generate_step(mx.array(parts.PROMPT), target.model, max_tokens=30)
    expected = [int(token) for token, _ in stock]
    assert module.decode_native(target.model, parts.PROMPT, 30, ()).tokens == expected


@pytest.mark.parametrize("prompt", [parts.PROMPT, [7]])
@pytest.mark.parametrize("tokens", [1, 2, 15])
def test_equals_full_context_forwards(target, prompt, tokens):
    trace = module.decode_native(target.model, prompt, tokens, ())
    assert len(trace.tokens) == tokens
    for place, token in enumerate(trace.tokens):
        assert token == parts.next_token(target, prompt + trace.tokens[:place])


@pytest.mark.parametrize("tokens", [1, 2, 15])
def test_one_forward_a_token_of_width_one(target, monkeypatch, tokens):
    widths = parts.watch_embedding(monkeypatch)
    trace = module.decode_native(target.model, parts.PROMPT, tokens, ())
    assert widths == [len(parts.PROMPT)] + [1] * (tokens - 1)
    assert trace.forwards == tokens
    assert trace.cycles == []


def test_a_stop_id_ends_the_text(target, text):
    new = text[len(parts.PROMPT) :]
    stop = new[4]
    trace = module.decode_native(target.model, parts.PROMPT, 30, {stop})
    assert trace.tokens == new[: new.index(stop) + 1]
    assert trace.forwards == len(trace.tokens) + 1  # the next one was under way
    assert module.decode_native(target.model, parts.PROMPT, 1, {new[0]}).forwards == 1
