"""A committed adapter in place of a trained one: the manifest's bytes for this target, or none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from diffdraft import cli, files
from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.prereg.take_adapter import take_adapter

from .adapters import SETTINGS, TAGS

SCRIPTS = Path(__file__).parents[2] / "workflow_scripts"


def take(kept, tag="primary", settings=SETTINGS) -> Path:
    out = kept.path / "taken" / tag
    take_adapter(load_profile(settings), tag, kept.evidence, kept.build / "target", out)
    return out


def refused(kept, match: str, **options) -> None:
    with pytest.raises(UserError, match=match) as caught:
        take(kept, **options)
    assert "\n" not in str(caught.value)
    assert not (kept.path / "taken/primary/adapter.safetensors").exists()


@pytest.mark.parametrize("tag", TAGS)
def test_what_is_taken_is_what_was_trained(kept, tag):
    out = take(kept, tag)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in (kept.adapters / tag).iterdir()
    }


def test_another_target_is_refused(kept):
    files.write_json(kept.build / "target/training.json", {"fingerprint": "e" * 64})
    refused(kept, r"target_fingerprint: found f+; expected e+\. --config adapter=train")


def test_a_target_without_record_is_refused(kept):
    (kept.build / "target/training.json").unlink()
    refused(kept, "record: found none")


def test_another_profile_is_refused(kept):
    kept.change_profile()
    text = kept.profile.read_text().replace("vocab_size: 1023", "vocab_size: 1024")
    kept.profile.write_text(text.replace("rank: ", "rank: 1", 1))
    refused(kept, "profile_sha256: found .* --config adapter=train", settings=kept.profile)


def test_an_adapter_that_is_not_there_is_refused(kept):
    path = kept.evidence / "MANIFEST.json"
    manifest = json.loads(path.read_text())
    del manifest["adapters"]["primary"]
    files.write_json(path, manifest)
    refused(kept, "adapters: found primary_shuffled, replication; expected primary among them")


def test_a_manifest_that_is_none_is_refused(kept):
    (kept.evidence / "MANIFEST.json").write_text("{}")
    refused(kept, r"MANIFEST\.json: profile: found nothing")


@pytest.mark.parametrize("name", ["adapter.safetensors", "training.csv", "training.json"])
def test_a_file_that_is_not_the_manifests_is_refused(kept, name):
    path = kept.evidence / "primary" / name
    path.write_bytes(path.read_bytes() + b" ")
    refused(kept, f"{name}: sha256: found .*, as in MANIFEST.json")
    assert not (kept.path / "taken/primary" / name).exists()
    path.unlink()
    refused(kept, f"{name}: file: found nothing there")


def test_the_command_is_one_line_and_needs_no_mlx(kept):
    words = ["--profile", SETTINGS, "--tag", "primary", "--evidence", kept.evidence]
    words += ["--target", kept.build / "target", "--out", kept.path / "taken"]
    code = (
        "import sys, runpy; sys.modules['mlx'] = None; sys.argv = sys.argv[1:];"
        "sys.path.insert(0, sys.argv[0].rsplit('/', 1)[0]);"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(SCRIPTS / "take_adapter.py"), *map(str, words)]
    assert subprocess.run(command, check=False).returncode == 0
    assert len(list((kept.path / "taken").iterdir())) == 3
    files.write_json(kept.build / "target/training.json", {"fingerprint": "e" * 64})
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == cli.EXIT_USER_ERROR
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
