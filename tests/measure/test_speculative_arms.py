from diffdraft.measure.speculative import arms as module

# isort: split
import json

import mlx.core as mx
import pytest

from diffdraft.decoding.adaptive import EntropyPolicy, ExpectedValuePolicy, SurvivalPolicy
from diffdraft.decoding.policy import FixedBlock
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import save_adapter
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.measure.speculative import bench as benches
from diffdraft.measure.workloads import EncodedPrompt
from diffdraft.prereg.schema import DecodingSample
from diffdraft.studies.act4s.design import designs
from diffdraft.targets.load import target_of
from tests.decoding import parts
from tests.synthetic_decoding import SAMPLE

PROMPT = EncodedPrompt("p", "prose", parts.PROMPT)
WANTED = DecodingSample.model_validate(SAMPLE)
SETTINGS = module.Settings(WANTED.policies, 5, 50, {2: 1.0, 4: 1.5, 8: 2.5})
TOKENS = 24


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Adapter files of one target: the trained one, and controls that do and do not fit it."""
    folder = tmp_path_factory.mktemp("adapters")
    target = parts.make_target()
    metadata = {"study": "rprm", "step": 1, "seed": 1, "block_size": 4, "config_hash": "c0"}
    metadata["target_fingerprint"] = target.fingerprint
    adapter = Adapter.attach(target.model, parts.SPEC)
    for seed, arm in enumerate(("primary", "primary_shuffled")):
        parts.randomise(adapter, seed)
        save_adapter(folder / f"{arm}.safetensors", adapter, {**metadata, "arm": arm})
    foreign = {**metadata, "arm": "primary_shuffled", "target_fingerprint": "f" * 64}
    save_adapter(folder / "foreign.safetensors", adapter, foreign)
    wide = Adapter.attach(
        parts.make_target().model, AdapterSpec(8, 16.0, 0.5, parts.SPEC.placement, 3)
    )
    save_adapter(folder / "wide.safetensors", wide, {**metadata, "arm": "primary_shuffled"})
    return folder


@pytest.fixture(scope="module")
def bench(files):
    target = parts.make_target()
    return benches.make_bench(
        target, files / "primary.safetensors", files / "primary_shuffled.safetensors", 4
    )


def build(name, bench):
    return module.build_arm(name, bench, SETTINGS)


def spied(name, bench, monkeypatch):
    """The parts that an arm hands to the decode loop."""
    seen = []

    def decode(target, drafter, acceptance, policy, ids, tokens, search):
        seen.append((drafter, policy, search))

    monkeypatch.setattr(module, "decode", decode)
    build(name, bench).decode(PROMPT, 3, TOKENS)
    return seen[0]


def test_every_arm_of_every_run_gives_the_native_text(bench):
    native = build("ar", bench).decode(PROMPT, 0, TOKENS).tokens
    names = {name for design in designs(WANTED).values() for name in design.arms}
    for name in sorted(names):
        assert build(name, bench).decode(PROMPT, 0, TOKENS).tokens == native, name


@pytest.mark.parametrize(
    ("name", "kind", "size"),
    [
        ("ar", "ar", 0),
        ("uno_k16", "uno", 16),
        ("uno_k4_again", "uno", 4),
        ("refine2_k4", "refine", 4),
        ("ngram3_k4", "ngram", 4),
        ("untrained_k4", "untrained", 4),
        ("shuffled_k4", "shuffled", 4),
        ("random_k4", "random", 4),
        ("conf_k4", "confidence", 4),
        ("adapt_entropy", "adaptive", 8),
        ("adapt_survival_repaired", "adaptive", 8),
        ("adapt_confidence", "confidence", 8),
    ],
)
def test_kind_and_largest_block(bench, name, kind, size):
    arm = build(name, bench)
    assert (arm.id, arm.kind, arm.block_size) == (name, kind, size)
    assert module.block_size_of(name, WANTED.policies) == size


@pytest.mark.parametrize("name", ["uno", "uno4_k4", "refine_k4", "ngram_k2", "adapt", "uno_k4x"])
def test_a_name_that_means_nothing_is_refused(bench, name):
    with pytest.raises(UserError, match=f"arms: {name}: found an unknown arm"):
        build(name, bench)


def test_policies_and_their_constants(bench, monkeypatch):
    kinds = {
        "uno_k4": FixedBlock,
        "adapt_entropy": EntropyPolicy,
        "adapt_survival": SurvivalPolicy,
        "adapt_survival_repaired": SurvivalPolicy,
        "adapt_ev": ExpectedValuePolicy,
        "adapt_confidence": FixedBlock,
    }
    found = {name: spied(name, bench, monkeypatch) for name in kinds}
    assert {name: type(policy) for name, (_, policy, _) in found.items()} == kinds
    assert found["adapt_survival_repaired"][1]._repaired
    assert not found["adapt_survival"][1]._repaired
    assert found["adapt_ev"][1]._cost_ms == SETTINGS.cost_ms
    drafter, policy, search = found["adapt_confidence"]
    assert (policy.size, search.floor, drafter.confidence) == (8, 0.3, True)


def test_policies_start_afresh_in_every_generation(bench):
    arm = build("adapt_ev", bench)
    first, second = (arm.decode(PROMPT, 0, TOKENS) for _ in range(2))
    sizes = [[cycle.block_size for cycle in trace.cycles] for trace in (first, second)]
    assert sizes[0] == sizes[1]
    assert sizes[0][:3] == [2, 2, 2]


def test_noise_is_of_the_prompt_and_the_same_in_all_arms(bench, monkeypatch):
    for name in ("uno_k4", "refine2_k4", "untrained_k4", "adapt_ev", "conf_k4"):
        assert spied(name, bench, monkeypatch)[0].seed == 5 + 3
    assert spied("refine2_k4", bench, monkeypatch)[0].passes == 2
    assert spied("ngram3_k4", bench, monkeypatch)[0].order == 3
    assert spied("random_k4", bench, monkeypatch)[0].seed == 50 + 3


def test_arms_draft_with_their_own_weights_in_any_order(bench):
    """The trained and the shuffled drafts differ, and neither leaves its weights behind."""

    def accepted(name):
        cycles = build(name, bench).decode(PROMPT, 0, TOKENS).cycles
        return [(cycle.accepted, cycle.committed) for cycle in cycles]

    drafts = {}
    for name in ("uno_k4", "shuffled_k4", "untrained_k4"):
        tensors = {"shuffled_k4": "shuffled", "untrained_k4": "untrained"}.get(name, "trained")
        build(name, bench).decode(PROMPT, 0, 2)
        held = bench.adapter.tensors
        assert all(held[key] is value for key, value in bench.weights[tensors].items())
        with bench.adapter.rows(mx.ones((1, 4))):
            drafts[name] = bench.target.model(mx.array([parts.PROMPT[:4]])).tolist()
    assert len({json.dumps(draft) for draft in drafts.values()}) == 3
    before = accepted("uno_k4")
    accepted("shuffled_k4")
    assert accepted("uno_k4") == before


def test_the_untrained_adapter_changes_nothing(files):
    target = parts.make_target()
    plain = target.model(mx.array([parts.PROMPT])).tolist()
    bench = benches.make_bench(target, None, None, rank=3)
    assert bench.adapter.spec.rank == 3
    assert bench.adapter.spec.alpha == 48
    assert set(bench.adapter.spec.placement) == {"attention", "mlp"}
    with bench.adapter.rows(mx.ones((1, len(parts.PROMPT)))):
        assert target.model(mx.array([parts.PROMPT])).tolist() == plain
    target.check_unchanged()


def test_an_adapter_is_put_on_a_cast_copy_of_its_target(files):
    plain = parts.make_target()
    cast = target_of(plain.model, plain.tokenizer, "bfloat16")
    assert benches.precision(cast.model) == "bfloat16"
    bench = benches.make_bench(cast, files / "primary.safetensors", None, 4)
    native = build("ar", bench).decode(PROMPT, 0, TOKENS)
    assert len(build("uno_k4", bench).decode(PROMPT, 0, TOKENS).tokens) == len(native.tokens)
    cast.check_unchanged()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("foreign", "metadata.target_fingerprint: found ffff"),
        ("primary", "metadata.arm: found primary; expected primary_shuffled"),
        ("wide", "expected the rank, alpha and placement of the trained adapter"),
    ],
)
def test_a_control_that_does_not_fit_is_refused(files, name, line):
    with pytest.raises(UserError, match=line):
        benches.make_bench(
            parts.make_target(), files / "primary.safetensors", files / f"{name}.safetensors", 4
        )


def test_a_control_that_was_not_loaded_is_missed(files):
    bench = benches.make_bench(parts.make_target(), files / "primary.safetensors", None, 4)
    with pytest.raises(UserError, match="shuffled adapter: found none"):
        build("shuffled_k4", bench).decode(PROMPT, 0, 2)
