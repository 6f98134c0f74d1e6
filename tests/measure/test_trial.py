from diffdraft.measure.trial import run as module

# isort: split
import io
import re
import runpy
import subprocess
import sys
from types import SimpleNamespace

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from diffdraft import cli, files
from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import read_adapter, save_adapter
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import save_tensors
from diffdraft.measure.trial import report, request
from diffdraft.measure.trial.marked_text import BRACKETED
from tests.decoding import plain_models
from tests.measure import small_decoding as small

SCRIPT = small.ROOT / "workflow_scripts" / "generate.py"
PARSER = runpy.run_path(str(SCRIPT))["make_parser"]
PROMPT = "in the beginning"
ALWAYS = " the"


@pytest.fixture(scope="module")
def constant(study, tmp_path_factory):
    """A Gemma folder that says one word for ever, and an untrained adapter, which guesses it."""
    folder = tmp_path_factory.mktemp("constant")
    shape = {**plain_models.SHAPE, "vocab_size": small.VOCABULARY}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_models, "SHAPE", shape)
        model = plain_models.make_gemma3().model
    embedding = model.model.embed_tokens
    embedding.weight = mx.broadcast_to(embedding.weight[:1], embedding.weight.shape)
    said = mx.argmax(model(mx.array([[3]]))[0, -1]).item()
    tokenizer = files.read_json(study.target / "tokenizer.json")["model"]["vocab"]
    always = tokenizer["\u0120the"]
    rows = mx.arange(small.VOCABULARY)
    rows[said], rows[always] = always, said
    model.lm_head.weight = model.lm_head.weight[rows]
    mx.save_safetensors(
        str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"}
    )
    window = {"sliding_window": 8, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16}
    files.write_json(folder / "config.json", {"model_type": "gemma3_text", **shape, **window})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((study.target / name).read_bytes())
    target = request.load_target(folder)
    adapter = Adapter.attach(target.model, AdapterSpec(2, 4.0, 0.5, ("attention", "mlp"), seed=1))
    said_of_it = {"study": "x", "arm": "untrained", "step": 0, "seed": 1, "config_hash": "c"}
    metadata = {**said_of_it, "block_size": 4, "target_fingerprint": target.fingerprint}
    save_adapter(folder / "adapter.safetensors", adapter, metadata)
    return folder


def arguments(folder, *words, adapter=None):
    given = ["--adapter", str(adapter)] if adapter else []
    return ["--model", str(folder), *given, "--max-tokens", "10", *words]


def generate(capsys, folder, *words, adapter=None, prompt=PROMPT):
    """The text and the lines below it, by their names."""
    module.run(PARSER().parse_args([*arguments(folder, *words, adapter=adapter), prompt]))
    text, below = capsys.readouterr().out.split("\n\n")
    return text, dict(re.split(r"  +", line, maxsplit=1) for line in below.splitlines())


def refused(*words):
    with pytest.raises(UserError) as caught:
        module.run(PARSER().parse_args([str(word) for word in words]))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def piped(*words, **options):
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, **options)


def test_piped_text_has_its_guessed_words_in_brackets(constant):
    """A whole process on a folder of Gemma: two cycles of 4 + 1 tokens."""
    done = piped(*arguments(constant, PROMPT, adapter=constant / "adapter.safetensors"))
    assert done.returncode == 0, done.stderr
    text, below = done.stdout.decode().split("\n\n")
    cycle = f"{ALWAYS}[{ALWAYS * 3}]{ALWAYS}"
    assert text == PROMPT + cycle * 2
    lines = below.splitlines()
    assert lines[0] == "tokens    10, of which 6 drafted (in brackets)"
    assert lines[1] == "accepted  3.00 of 3.00 offered tokens a cycle, 2 cycles"
    assert re.fullmatch(r"drafted   [\d.]+ tokens/s, block size 4", lines[2])
    assert re.fullmatch(r"native    [\d.]+ tokens/s", lines[3])
    assert re.match(r"speed     [\d.]+ times native \(2 runs of each", lines[4])
    assert lines[5] == "text      identical to native greedy decoding"
    assert re.match(r"computed  in (float32|bfloat16) on (cpu|metal|cuda), .+", lines[6])
    assert len(lines) == 7
    assert "\x1b" not in done.stdout.decode()


def test_the_end_of_a_text_is_not_marked_beyond_what_was_committed(constant, capsys):
    adapter = constant / "adapter.safetensors"
    text, below = generate(capsys, constant, "--max-tokens", "7", adapter=adapter)
    assert text == f"{PROMPT}{ALWAYS}[{ALWAYS * 3}]{ALWAYS * 2}[{ALWAYS}]"
    assert below["tokens"] == "7, of which 4 drafted (in brackets)"


def test_plain_text_and_no_comparison(constant, capsys):
    options = ("--plain", "--no-compare", "--block-size", "2")
    adapter = constant / "adapter.safetensors"
    text, below = generate(capsys, constant, *options, adapter=adapter)
    assert text == PROMPT + ALWAYS * 10
    assert list(below) == ["tokens", "accepted", "drafted", "computed"]
    assert below["tokens"] == "10, of which 3 drafted (not marked)"
    assert below["accepted"] == "1.00 of 1.00 offered tokens a cycle, 4 cycles"
    assert below["drafted"].endswith("block size 2")


def test_without_an_adapter_the_model_goes_on_alone(study, capsys):
    text, below = generate(capsys, study.target)
    assert text.startswith(PROMPT)
    assert list(below) == ["tokens", "native", "computed"]
    assert below["tokens"] == "10"


def test_a_hybrid_target_and_its_adapter(study, capsys):
    text, below = generate(capsys, study.target, "--seed", "7", adapter=study.adapter)
    alone, _ = generate(capsys, study.target)
    assert text.replace("[", "").replace("]", "") == alone.replace("[", "").replace("]", "")
    assert below["text"] == "identical to native greedy decoding"
    trained_for = int(read_adapter(study.adapter)[1]["block_size"])
    assert below["drafted"].endswith(f"block size {trained_for}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_precision_is_the_one_asked_for(study, capsys, dtype):
    assert f"in {dtype} on " in generate(capsys, study.target, "--dtype", dtype)[1]["computed"]


def test_the_precision_is_that_of_the_device_where_none_is_asked_for(study, capsys, monkeypatch):
    monkeypatch.setattr(request.backend, "traits", lambda: SimpleNamespace(dtype="bfloat16"))
    assert "in bfloat16 on " in generate(capsys, study.target)[1]["computed"]


def test_where_a_text_leaves_the_native_one_is_told(study, monkeypatch):
    args = PARSER().parse_args([*arguments(study.target, adapter=study.adapter), PROMPT])
    trial = request.make_trial(args)
    native = trial.native()
    other = list(native.tokens)
    other[3] = (other[3] + 1) % small.VOCABULARY
    monkeypatch.setattr(native, "wall_seconds", 2.0)
    drafted = Trace(native.prompt_tokens, other, [Cycle(1, 4, 3, 2, 10, 2, 0, 1, 1, 1, 3)])
    drafted.wall_seconds = 4.0
    below = report.compared(trial, [native] * 2, [drafted] * 2, BRACKETED)
    assert "differs from native from token 4 on: " in below
    assert "units in the last place apart" in below
    assert "speed     0.50 times native" in below
    assert "drafted   2.5 tokens/s" in below


def test_both_arms_take_turns():
    calls = []
    arms = [lambda name=name: calls.append(name) or name for name in ("native", "drafted")]
    assert module.in_turns(*arms) == [["native"] * 2, ["drafted"] * 2]
    assert calls == ["native", "drafted", "drafted", "native"]


def test_text_ends_at_a_stop_token_which_is_not_shown(constant, monkeypatch):
    args = PARSER().parse_args([*arguments(constant), PROMPT])
    trial = request.make_trial(args)
    always = trial.native(1).tokens
    monkeypatch.setattr(trial.target.tokenizer, "_eos_token_ids", set(always))
    stream = io.StringIO()
    assert module.show(trial, BRACKETED, stream).tokens == always
    assert stream.getvalue() == PROMPT + "\n\n"


def test_every_cycle_is_shown_before_the_next_one_is_run(constant, monkeypatch):
    args = PARSER().parse_args(
        [*arguments(constant, adapter=constant / "adapter.safetensors"), PROMPT]
    )
    trial, stream, seen = request.make_trial(args), io.StringIO(), []
    propose = request.UnoDrafter.propose

    def watched(self, request):
        seen.append(stream.getvalue())
        return propose(self, request)

    monkeypatch.setattr(request.UnoDrafter, "propose", watched)
    module.show(trial, BRACKETED, stream)
    cycle = f"{ALWAYS}[{ALWAYS * 3}]{ALWAYS}"
    assert seen == ["", PROMPT + cycle]


def test_the_prompt_may_come_from_standard_input(study):
    done = piped(*arguments(study.target, "-"), input=f"{PROMPT}\n".encode())
    assert done.returncode == 0
    assert done.stdout.decode().startswith(PROMPT)


@pytest.mark.parametrize(
    ("given", "said"), [(b"", "found nothing"), (b" \n", "found nothing"), (b"\xff", "UTF-8")]
)
def test_standard_input_without_text(monkeypatch, given, said):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    with pytest.raises(UserError, match=f"^standard input: text: .*{said}"):
        request.prompt_text("-")


@pytest.mark.parametrize("prompt", ["", "  ", "\n"])
def test_an_empty_prompt(study, prompt):
    assert refused(*arguments(study.target), prompt).startswith("prompt: text: found nothing")


def test_a_prompt_of_other_bytes(study):
    assert "expected UTF-8" in refused(*arguments(study.target), "\udcff")


def test_a_prompt_longer_than_the_context(study):
    assert "at most the context of 96" in refused(*arguments(study.target), "in the " * 90)
    assert "at most the context of 96" in refused(
        *arguments(study.target, "--max-tokens", "200", "--no-compare"), PROMPT
    )


def test_no_model_folder(tmp_path):
    assert "config.json: file: found nothing there" in refused(*arguments(tmp_path / "x"), PROMPT)


def test_an_adapter_of_another_target(study):
    assert "It belongs to another target" in refused(
        *arguments(study.other_target, adapter=study.adapter), PROMPT
    )


def test_no_adapter_file(study, tmp_path):
    assert "nothing there" in refused(*arguments(study.target, adapter=tmp_path / "x"), PROMPT)


def test_an_adapter_whose_block_size_is_no_number(study, tmp_path):
    tensors, metadata = read_adapter(study.adapter)
    file = tmp_path / "adapter.safetensors"
    save_tensors(file, tensors, {**metadata, "block_size": "four"})
    said = refused(*arguments(study.target, adapter=file), PROMPT)
    assert "metadata.block_size: value: found 'four'" in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--block-size", "0", "--block-size: value: found '0'"),
        ("--block-size", "500", "block size: found 500"),
        ("--max-tokens", "many", "--max-tokens: value: found 'many'"),
        ("--max-tokens", "0", "--max-tokens: value: found '0'"),
        ("--seed", "-1", "--seed: value: found '-1'"),
        ("--dtype", "float16", "dtype: found float16"),
    ],
)
def test_options_out_of_range(study, capsys, option, value, said):
    words = arguments(study.target, option, value, adapter=study.adapter)
    assert said in refused(*words, PROMPT)
    assert capsys.readouterr().out == ""


def test_a_block_size_without_a_drafter(study):
    said = refused(*arguments(study.target, "--block-size", "4"), PROMPT)
    assert "expected an --adapter to draft with" in said


def test_an_unknown_option_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        PARSER().parse_args(["--model", "x", "--fast", PROMPT])
    assert ended.value.code == cli.EXIT_USER_ERROR
    assert "unrecognized arguments: --fast" in capsys.readouterr().err


def test_a_reader_who_has_seen_enough_is_no_error(constant):
    command = [sys.executable, str(SCRIPT), *arguments(constant, "--max-tokens", "400"), PROMPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(3)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_prompt_cannot_steer_the_terminal(study, capsys):
    text, _ = generate(capsys, study.target, prompt=f"{PROMPT} \x1b[31m")
    assert "\x1b" not in text and "\ufffd[31m" in text


@pytest.mark.parametrize("arm", ["native", "drafted"])
def test_runs_that_differ_among_themselves_are_told(study, arm):
    args = PARSER().parse_args([*arguments(study.target, adapter=study.adapter), PROMPT])
    trial = request.make_trial(args)
    traces = {name: [Trace(3, [1, 2, 3]), Trace(3, [1, 2, 3])] for name in ("native", "drafted")}
    traces[arm][1].tokens[-1] = 4
    said = report.text_words(trial, traces["native"], traces["drafted"])
    assert said == f"differs from one {arm} run to the next"
