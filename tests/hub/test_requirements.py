import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.hub import requirements as module
from diffdraft.hub.estimates import generated
from diffdraft.hub.requirements import Given
from diffdraft.hub.snapshot import cached_snapshot
from diffdraft.prereg.schema import DecodingSample
from tests.hub import standin

PREREG = standin.ROOT / "prereg"


@pytest.fixture
def planned(tmp_path):
    """Plans, of which that of act4s has a sample of the stand-in."""
    folder = shutil.copytree(PREREG, tmp_path / "prereg")
    plan = yaml.safe_load((folder / "act4s.yaml").read_text())
    for section in ("samples", "models"):
        plan[section]["standin"] = plan[section]["tiny"]
    (folder / "act4s.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    # They are of the frozen plan, by its digest.
    for path in (folder / "ledger.jsonl", *folder.glob("*.amendment-*.yaml")):
        path.unlink()
    return folder


def missing(profile, given, prereg=PREREG):
    found = module.needs(profile, given, prereg, ("act4s",))
    return [need.name for need in found if need.error]


def test_what_is_missing_in_order(source, profile):
    model, text = source / "model", source / "text"
    assert missing(profile, Given()) == ["model", "text", "plan of act4s"]
    assert missing(profile, Given(model)) == ["text", "plan of act4s"]
    assert missing(profile, Given(model, text)) == ["plan of act4s"]


def test_nothing_is_missing(source, profile, planned):
    given = Given(source / "model", source / "text")
    assert missing(profile, given, planned) == []
    module.refuse_missing(profile, given, planned, ("act4s",))


def test_a_run_ends_with_the_first_thing_missing(source, profile):
    for given, said in (
        (Given(), f"hf download nobody/stand-in --revision {standin.REVISION}"),
        (Given(source / "model"), "Salesforce/wikitext.* --repo-type dataset"),
        (Given(source / "model", source / "text"), "act4s.yaml: samples.standin: found nothing"),
    ):
        with pytest.raises(UserError, match=said):
            module.refuse_missing(profile, given, PREREG, ("act4s",))


def test_a_plan_that_pins_a_revision_takes_no_folder_that_does_not_say_it(source, profile, planned):
    path = planned / "act4s.yaml"
    plan = yaml.safe_load(path.read_text())
    plan["models"]["standin"]["revision"] = standin.REVISION
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    given = Given(source / "model", source / "text")
    with pytest.raises(UserError, match=f"revision: found not said.*; expected {standin.REVISION}"):
        module.refuse_missing(profile, given, planned, ("act4s",))
    cached = cached_snapshot(profile.target.repo, standin.REVISION)
    shutil.copytree(source / "model", cached)
    for model in (None, cached):
        module.refuse_missing(profile, Given(model, source / "text"), planned, ("act4s",))


def test_what_a_rule_can_fetch_stops_no_run(profile, planned):
    module.refuse_missing(profile, Given(), planned, ("act4s",))
    module.refuse_missing(profile, Given(), PREREG, ())


def test_a_bad_model_is_told(model, source, profile):
    (model / "model-00001-of-00003.safetensors").unlink()
    lines = list(module.explain(profile, Given(model, source / "text"), PREREG))
    assert lines[1].startswith("  model: MISSING: ") and "00001-of-00003" in lines[1]


def test_parquet_needs_pyarrow(source, profile, tmp_path, monkeypatch):
    text = tmp_path / "text"
    text.mkdir()
    for part in ("train", "validation"):
        (text / f"{part}-00000-of-00001.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(module, "_installed", lambda package: False)
    found = module.needs(profile, Given(source / "model", text), PREREG, ())
    assert "Get it by: make hub" in str(found[1].error)


def test_the_published_profile_is_explained():
    profile = load_profile(standin.ROOT / "config/profiles/qwen35_4b.yaml")
    text = "\n".join(module.explain(profile, Given(), PREREG))
    for words in (
        "hf download unsloth/Qwen3.5-4B-Base --revision 61541fe4aed37b6a1e615edd5cbf5a3f660312b1",
        "hf download Salesforce/wikitext --revision b08601e04326c79dfdd32d625aee71d232d685c3",
        "8.4 GB for the weights",
        "memory: decoding in bfloat16: 8.9 GB at the peak, as published (Apple M4 Max",
        # 4,205,751,296 parameters of 4 and 2 bytes; of 2, and four times 84,966,094 bytes.
        "memory: runs precision and cost of act4s: 25.2 GB of weights in float32",
        "memory: training: 8.8 GB of weights, ",
        "training primary: 6.2 h (16,000 steps of 1.4 s)",
        "decoding of act4s: 3.1 h (538,368 tokens at 48.46 a second)",
        "84,966,094 bytes, licence: none declared",
    ):
        assert words in text, (words, text)
    assert "plan of act4s: MISSING" not in text
    assert "48.46 tokens/s, 60.32 drafted" in text


@pytest.mark.parametrize(
    ("adapter", "trained"),
    [
        (None, ["primary", "replication", "the shuffled control of act4s"]),
        ("x", ["replication", "the shuffled control of act4s"]),
        ("committed", []),
    ],
)
def test_what_is_given_is_not_trained(profile, adapter, trained):
    lines = module.explain(profile, Given(adapter=adapter), PREREG)
    begin = "  time: training "
    assert [line[len(begin) :].split(":")[0] for line in lines if line.startswith(begin)] == trained


def test_a_text_of_another_revision_is_told(source, profile, tmp_path):
    place = cached_snapshot(profile.corpus.dataset, "f" * 40, "dataset")
    shutil.copytree(source / "text", place)
    found = module.needs(profile, Given(source / "model", place), PREREG, ())
    assert f"revision: found {'f' * 40}" in str(found[1].error)


def told_of_adapter(profile, adapter):
    lines = module.explain(profile, Given(adapter=adapter), PREREG)
    return next(line for line in lines if line.startswith("  adapter: "))


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        ("/z", "MISSING: /z: file: found nothing there; expected an adapter, such as "),
        (".", "MISSING: .: file: found nothing there; "),
        ("http://example.org/z", "MISSING: http://example.org/z: address: found http; "),
        ("https://[::1/z", "MISSING: https://[::1/z: address: found Invalid IPv6 URL; "),
        ("https://example.org/z", "https://example.org/z, to be verified"),
        (__file__, f"{__file__}, to be verified"),
        ("committed", "the committed one"),
        (None, "trained here; "),
    ],
)
def test_what_is_told_of_the_adapter(profile, adapter, said):
    assert told_of_adapter(profile, adapter).startswith(f"  adapter: {said}")


@pytest.mark.parametrize("study", ["act4s", "paired_timing", "rprm"])
def test_a_plan_without_a_sample_names_the_command(profile, study):
    told = "\n".join(module.explain(profile, Given(), PREREG))
    command = f"workflow_scripts/amend.py {PREREG}/{study}.yaml --reason TEXT --seen TEXT "
    assert f"{command}--change samples.standin YAML --change models.standin YAML" in told


def test_the_named_command_is_one(profile):
    """Its options are those of the script."""
    words = module.amendment(PREREG / "act4s.yaml", "standin").split()
    script = runpy.run_path(str(standin.ROOT / words[0]))
    args = script["parser"]().parse_args(words[1:])
    assert args.change == [["samples.standin", "YAML"], ["models.standin", "YAML"]]


def test_an_estimate_takes_the_sample_of_tiny(profile, planned):
    """Whatever other profiles a plan has."""
    plan = yaml.safe_load((planned / "act4s.yaml").read_text())
    for section in ("samples", "models"):
        plan[section]["aaa"] = plan[section].pop("standin")
    plan["samples"]["aaa"] = {**plan["samples"]["aaa"], "tokens": 100_000}
    (planned / "act4s.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    before, after = (
        [line for line in module.explain(profile, Given(), folder) if "decoding of act4s" in line]
        for folder in (PREREG, planned)
    )
    assert before == after and "were its sample that of tiny" in before[0]


def test_a_plan_that_is_none_is_told(profile, planned):
    (planned / "act4s.yaml").write_text("study: act4s\n")
    told = "\n".join(module.explain(profile, Given(), planned))
    assert "plan of act4s: MISSING: " in told and "decoding of act4s: not estimated: " in told


def test_generated_tokens_are_those_of_the_runs():
    plan = yaml.safe_load((PREREG / "act4s.yaml").read_text())
    sample = DecodingSample.model_validate(plan["samples"]["tiny"])
    baseline = 27 * 3 * 2 * (64 + 128 + 256)
    ksweep, precision = 27 * 3 * 7 * 64, 27 * 2 * 6 * 64
    context, controls = 10 * 3 * 4 * 3 * 64, 27 * 3 * 10 * 64
    adaptive, confidence = 27 * 3 * 9 * 64, 27 * 3 * 2 * 64
    runs = (baseline, ksweep, precision, context, controls, adaptive, confidence)
    assert generated(sample) == sum(runs)


def test_runs_without_mlx():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('mlx', 'tokenizers', 'huggingface_hub')));"
        "import diffdraft.hub.requirements"
    )
    scripts = str(Path(standin.ROOT, "workflow_scripts"))
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": scripts})
