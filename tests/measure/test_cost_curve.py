import diffdraft.decoding  # noqa: F401  (sets BLAS up before MLX is imported)

# isort: split
from collections import Counter
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pandas as pd
import pytest

from diffdraft import rows
from diffdraft.decoding.transaction import SnapshotTransaction
from diffdraft.errors import UserError
from diffdraft.layers.gated_delta import delta_output
from diffdraft.measure import cost_curve, cost_parts
from diffdraft.measure.cost_curve import CostCurve, Subject
from diffdraft.prereg.schema import CostSample
from diffdraft.targets.load import cast_weights
from tests.decoding import parts
from tests.decoding.plain_models import make_gemma3, make_qwen3

WIDTHS, CONTEXT, BLOCK = 3, 12, 4
SAMPLE = CostSample(widths=WIDTHS, context=CONTEXT, repeats=2)
TEXT = np.random.default_rng(0).integers(1, 60, CONTEXT + BLOCK + 1).tolist()
HYBRID_PARTS = {
    "embedding_and_norms",
    "mlp",
    "attention",
    "delta_projections",
    "delta_recurrence",
    "head",
}
PLAIN_PARTS = HYBRID_PARTS - {"delta_projections", "delta_recurrence"}


def subject(target=None, dtype="float32"):
    target = target or parts.make_target()
    cast_weights(target.model, dtype)
    return Subject(target, parts.randomise(parts.Adapter.attach(target.model, parts.SPEC)))


def curve(subjects=None, sample=SAMPLE, text=TEXT, seed=3):
    return CostCurve(subjects or {"float32": subject()}, sample, BLOCK, text, seed)


@pytest.fixture(scope="module")
def both():
    return curve({dtype: subject(dtype=dtype) for dtype in ("float32", "bfloat16")})


def keys(records):
    return [(r["dtype"], r["kind"], r["part"], r["width"]) for r in records]


def test_every_width_kind_part_and_dtype_is_timed_once_a_repeat(both):
    kinds = ("native", "draft", "verify")
    whole = {(kind, "whole", width) for kind in kinds for width in range(1, WIDTHS + 1)}
    alone = {("verify", part, width) for part in HYBRID_PARTS for width in (1, BLOCK, BLOCK + 1)}
    expected = {(d, *key) for d in ("float32", "bfloat16") for key in whole | alone}
    records = both.repeat(0) + both.repeat(1)
    assert Counter(keys(records)) == dict.fromkeys(expected, 2)
    frame = pd.DataFrame(records, columns=rows.columns("passes"))
    rows.validate(frame, "passes", "rows")


def test_order_is_drawn_from_seed_and_repeat_and_mixes_all(both):
    first = keys(both.repeat(0))
    assert keys(both.repeat(0)) == first
    assert keys(both.repeat(1)) != first
    assert sorted(keys(both.repeat(1))) == sorted(first)
    for place in range(3):  # dtypes, kinds and parts alternate
        assert sum(a[place] != b[place] for a, b in pairwise(first)) > 10


def test_another_seed_draws_another_order():
    one, same, other = (keys(curve(seed=seed).repeat(0)) for seed in (3, 3, 4))
    assert one == same
    assert one != other


@pytest.mark.parametrize("make", [parts.make_target, make_qwen3, make_gemma3])
def test_the_cache_is_put_back_after_every_pass(make):
    measured = curve({"float32": subject(make())})
    cache, model = measured._passes[0].cache, measured._passes[0].run.args[0]

    def after_it():
        with_it = SnapshotTransaction(model, cache)
        logits = with_it.run(TEXT[CONTEXT : CONTEXT + 3])
        with_it.commit(0)
        return logits

    before = after_it()
    order = np.random.default_rng(1).permutation(len(measured._passes))
    for place in order:
        measured._passes[place].seconds()
        assert mx.array_equal(after_it(), before), measured._passes[place].key


@pytest.mark.parametrize("make", [make_qwen3, make_gemma3])
def test_a_plain_attention_model_has_no_delta_parts(make):
    records = curve({"float32": subject(make())}).repeat(0)
    assert {r["part"] for r in records} == PLAIN_PARTS | {"whole"}


@pytest.fixture
def evaluated(monkeypatch):
    """What the passes had computed, in order."""
    seen = []
    evaluate = mx.eval

    def spy(*arrays):
        seen.append(arrays)
        evaluate(*arrays)

    monkeypatch.setattr(mx, "eval", spy)
    return seen


def named(measured, kind, part, width):
    wanted = {"kind": kind, "part": part, "width": width}
    return next(p for p in measured._passes if wanted.items() <= p.key.items())


@pytest.mark.parametrize("width", [1, 3])
def test_passes_compute_what_decoding_does(evaluated, width):
    one = subject()
    measured, model = curve({"float32": one}), one.target.model
    ids = mx.array([TEXT[: CONTEXT + width]])
    expected = model(ids)[:, CONTEXT:]

    def logits(kind):
        evaluated.clear()
        named(measured, kind, "whole", width).seconds()
        return evaluated[0][0]

    assert mx.allclose(logits("native"), expected, atol=1e-4)
    assert mx.allclose(logits("verify"), expected, atol=1e-4)
    drafted = logits("draft")
    assert mx.allclose(drafted[:, 0], expected[:, 0], atol=1e-4)  # the first row is the frozen one
    assert drafted.shape == expected.shape
    assert width == 1 or not mx.allclose(drafted[:, 1:], expected[:, 1:], atol=1e-2)


def test_draft_rows_after_the_first_are_noise_under_the_adapter(evaluated):
    one = subject()
    measured = curve({"float32": one})
    run = named(measured, "draft", "whole", 3).run
    ids = run.args[2]
    assert ids[0] == TEXT[CONTEXT] and ids[1:] != TEXT[CONTEXT + 1 : CONTEXT + 3]
    assert all(1 <= noise < one.target.noise_high for noise in ids[1:])
    evaluated.clear()
    run()
    with one.adapter.rows(mx.array([[0] * (CONTEXT + 1) + [1, 1]])):
        expected = one.target.model(mx.array([TEXT[:CONTEXT] + ids]))[:, CONTEXT:]
    assert mx.allclose(evaluated[0][0], expected, atol=1e-4)


def test_parts_compute_what_the_whole_pass_does():
    """Put together again, the parts' outputs give the logits of the pass that was watched."""
    model = parts.make_target().model
    cache = cost_curve.make_prompt_cache(model)
    mx.eval(model(mx.array([TEXT[:CONTEXT]]), cache=cache))
    whole = cost_parts.CacheSnapshot.take(cache)
    logits = SnapshotTransaction(model, cache).run(TEXT[CONTEXT:])
    whole.restore()
    ran = cost_parts.verify_parts(model, cache, TEXT[CONTEXT:])
    norms = ran["embedding_and_norms"].args[0]
    mlps, attentions = ran["mlp"].args[0], ran["attention"].args[0]
    deltas = ran["delta_projections"].args[0]
    layers = model.language_model.model.layers
    assert len(norms) == 2 + 2 * len(layers) and len(mlps) == len(layers)
    assert len(attentions) + len(deltas) == len(layers)
    mixed = [delta_output(d.layer, d.y_BTHV, d.inputs.z_BTHV) for d in deltas]
    mixed += [call.again() for call in attentions]  # the last of four layers is the attending one
    h = norms[0].again()
    for index in range(len(layers)):
        assert mx.array_equal(norms[1 + 2 * index].args[0], h)
        h = h + mixed[index]
        assert mx.array_equal(norms[2 + 2 * index].args[0], h)
        h = h + mlps[index].again()
    assert mx.array_equal(norms[-1].args[0], h)
    final = ran["head"].args[1]
    assert mx.array_equal(norms[-1].again(), final)
    assert mx.array_equal(cost_parts.head(model, final)[0], logits)


def test_parts_run_their_own_modules_only(monkeypatch):
    model = parts.make_target().model
    cache = cost_curve.make_prompt_cache(model)
    mx.eval(model(mx.array([TEXT[:CONTEXT]]), cache=cache))
    ran = cost_parts.verify_parts(model, cache, TEXT[CONTEXT:])
    steps, projections = [], []
    recur, project = cost_parts.recurrent_states, cost_parts.delta_inputs
    monkeypatch.setattr(cost_parts, "recurrent_states", lambda *a: steps.append(1) or recur(*a))
    monkeypatch.setattr(cost_parts, "delta_inputs", lambda *a: projections.append(1) or project(*a))
    for part, run in ran.items():
        steps.clear()
        projections.clear()
        run()
        assert len(steps) == (3 if part == "delta_recurrence" else 0), part
        assert len(projections) == (3 if part == "delta_projections" else 0), part


def watched(model):
    backbone = model.language_model.model
    modules = [backbone.embed_tokens, backbone.norm]
    modules += [layer[name] for layer in backbone.layers for name in layer if name != "linear_attn"]
    modules += [layer.linear_attn.in_proj_qkv for layer in backbone.layers[:3]]
    return modules


def test_watching_leaves_the_model_as_it_was():
    target = parts.make_target()
    before = watched(target.model)
    with pytest.raises(ZeroDivisionError), cost_parts.watch(target.model):
        assert all(isinstance(module, cost_parts.Tap) for module in watched(target.model))
        raise ZeroDivisionError
    assert all(now is then for now, then in zip(watched(target.model), before, strict=True))
    target.check_unchanged()


def test_measuring_leaves_the_target_unchanged():
    one = subject()
    curve({"float32": one}).repeat(0)
    one.target.check_unchanged()


def test_a_model_of_other_names_is_refused():
    target = make_qwen3()
    target.model.model.final = target.model.model.pop("norm")
    with (
        pytest.raises(UserError, match="found no norm; expected a part of that name"),
        cost_parts.watch(target.model),
    ):
        pass


def test_seconds_are_of_the_run_alone(monkeypatch):
    ticks = iter([10.0, 10.25])
    monkeypatch.setattr(cost_curve.time, "perf_counter", lambda: next(ticks))
    ran = []
    assert cost_curve.Pass({}, [], lambda: ran.append(1)).seconds() == 0.25
    assert ran == [1]


def test_too_short_a_text_or_context_is_refused():
    with pytest.raises(UserError, match="found 16 tokens; expected at least context and rows, 17"):
        curve(text=TEXT[:-1])
    long = CostSample(widths=WIDTHS, context=508, repeats=1)
    with pytest.raises(UserError, match="at most the target's context of 512"):
        curve(sample=long, text=[1] * 600)
