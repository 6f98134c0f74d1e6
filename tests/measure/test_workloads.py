import re
from pathlib import Path

import pytest
import yaml

from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.measure.workloads import encode_workload, load_workload
from diffdraft.targets.corpus import corpus_file, read_documents

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "config" / "workloads" / "tiny.yaml"
RUNNING_WORDS = 7  # shorter ones are idiom


class Words:
    def encode(self, text):
        return [len(word) for word in text.split()]


@pytest.fixture
def content():
    return yaml.safe_load(SHIPPED.read_text())


def refused(tmp_path, content):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(content) if not isinstance(content, str) else content)
    with pytest.raises(UserError) as caught:
        load_workload(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_shipped_suite():
    workload = load_workload(SHIPPED)
    assert len(workload.prompts) == 27
    assert len({prompt.category for prompt in workload.prompts}) == 9
    assert all(prompt.id.rsplit("_", 1)[0] == prompt.category for prompt in workload.prompts)


def test_shipped_prompts_are_not_quotations():
    def words(text):
        return re.findall(r"[a-z]+", text.lower())

    def runs(text):
        all_words = words(text)
        return {
            tuple(all_words[i : i + RUNNING_WORDS])
            for i in range(len(all_words) - RUNNING_WORDS + 1)
        }

    settings = load_profile(ROOT / "config" / "profiles" / "tiny.yaml").corpus
    corpus = runs(" ".join(read_documents(corpus_file(settings))))
    quoted = [p.id for p in load_workload(SHIPPED).prompts if runs(p.text) & corpus]
    assert quoted == []


@pytest.mark.parametrize("text", ["", " ", "trailing ", " leading"])
def test_empty_or_padded_prompt(tmp_path, content, text):
    content["prompts"][4]["text"] = text
    assert "prompts.4.text: found" in refused(tmp_path, content)


def test_category_with_two_prompts(tmp_path, content):
    del content["prompts"][0]
    assert "prompts: found 2 of category prose; expected 3 of each" in refused(tmp_path, content)


def test_unknown_category_and_key(tmp_path, content):
    content["prompts"][1]["category"] = "verse"
    assert "prompts.1.category: found 'verse'" in refused(tmp_path, content)
    content["prompts"][1] = {**content["prompts"][0], "weight": 2}
    assert "prompts.1.weight: found an unknown key" in refused(tmp_path, content)


@pytest.mark.parametrize("field", ["id", "text"])
def test_twice_the_same(tmp_path, content, field):
    content["prompts"][1][field] = content["prompts"][0][field]
    assert f"prompts.{field}: found" in refused(tmp_path, content)


def test_missing_file_and_bad_yaml(tmp_path):
    with pytest.raises(UserError, match="file: found nothing there"):
        load_workload(tmp_path / "none.yaml")
    assert "line 1" in refused(tmp_path, "name: [")


def test_encoding_keeps_order_and_category():
    workload = load_workload(SHIPPED)
    encoded = encode_workload(workload, Words(), 64, 2048)
    assert [e.id for e in encoded] == [p.id for p in workload.prompts]
    assert encoded[0].category == "prose"
    assert encoded[0].ids == Words().encode(workload.prompts[0].text)


def test_a_prompt_longer_than_the_context_is_refused():
    workload = load_workload(SHIPPED)
    longest = max(len(prompt.text.split()) for prompt in workload.prompts)
    encode_workload(workload, Words(), 10, longest + 10)
    with pytest.raises(UserError, match=rf"found {longest} tokens and 11 to generate; expected"):
        encode_workload(workload, Words(), 11, longest + 10)


def test_a_prompt_without_tokens_is_refused():
    class Nothing:
        def encode(self, text):
            return []

    with pytest.raises(UserError, match="tiny: prose_1: found no token; expected at least one"):
        encode_workload(load_workload(SHIPPED), Nothing(), 1, 100)
