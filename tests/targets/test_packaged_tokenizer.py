"""The tokenizer rebuilt from scored pieces, against a slow merge by score and for round trips."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from diffdraft.targets.load import load_target
from diffdraft.targets.packaged.tokenizer import NORMAL, Vocabulary, build_tokenizer, merges
from tests.targets import tiny_gguf

PIECES = tiny_gguf.pieces()
IDS = {piece: id_ for id_, (piece, _, _) in enumerate(PIECES)}
ADDED = [*tiny_gguf.CONTROL, *tiny_gguf.USER_DEFINED]
LETTERS = "".join(letter for letter in tiny_gguf.LETTERS if letter != "▁")
TEXTS = st.text(
    alphabet=st.one_of(st.sampled_from("the beginning " * 3 + LETTERS), st.characters())
)


@pytest.fixture(scope="module")
def vocabulary():
    columns = [list(column) for column in zip(*PIECES, strict=True)]
    named = {"bos_token": 2, "eos_token": 1, "pad_token": 0, "unk_token": 3}
    return Vocabulary(*columns, named)


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return build_tokenizer(vocabulary)


def decoded(tokenizer, text):
    """The text again, the beginning token left out, which it must start with."""
    begin, *rest = tokenizer.encode(text).ids
    assert begin == IDS["<bos>"]
    return tokenizer.decode(rest, skip_special_tokens=False)


def encodable(text):
    """Neither "▁", which is the blank's own sign, nor half of a surrogate pair."""
    return "▁" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


@settings(max_examples=300, deadline=None)
@given(text=TEXTS.filter(encodable))
def test_every_text_comes_back(tokenizer, text):
    assert decoded(tokenizer, text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  two before, three   inside, forty" + 40 * " " + "and at the end  ",
        "\n\n\n\n\n",
        "line\r\nline\n\n\tline",
        "emoji 😀 👩‍👩‍👧 and é, ﷽, 中文",
        "written out: <0x41> <0x0A>",
        "[tool] and [t",
        "\x00\x7f\u2028\ufeff",
    ],
)
def test_texts_that_are_easily_spoiled_come_back(tokenizer, text):
    assert decoded(tokenizer, text) == text


def test_a_sign_that_stands_for_the_blank_comes_back_as_a_blank(tokenizer):
    assert decoded(tokenizer, "a▁b") == "a b"


def test_control_pieces_in_a_text_are_control_tokens(tokenizer):
    ids = tokenizer.encode("a<eos>b<bos>").ids
    assert ids == [IDS["<bos>"], IDS["a"], IDS["<eos>"], IDS["b"], IDS["<bos>"]]
    assert tokenizer.decode(ids) == "ab"


def test_user_defined_pieces_are_taken_whole_and_the_longest_first(tokenizer):
    ids = tokenizer.encode("[tool]\n\n\n     t").ids[1:]
    assert ids == [IDS["[tool]"], IDS["\n\n"], IDS["\n"], IDS["    "], IDS["▁t"]]
    assert tokenizer.decode(ids) == "[tool]\n\n\n     t"  # they are no special tokens


def test_what_no_piece_covers_becomes_bytes(tokenizer):
    assert tokenizer.encode("ß").ids[1:] == [IDS["<0xC3>"], IDS["<0x9F>"]]
    assert tokenizer.encode("<0x41>").ids[1:] == [IDS[letter] for letter in "<0x41>"]


def test_every_id_is_that_of_the_file(tokenizer):
    assert tokenizer.get_vocab(with_added_tokens=True) == IDS


def test_merges_are_all_splits_the_best_score_first(vocabulary):
    found = merges(vocabulary)
    assert found[:3] == [("▁", "t"), ("h", "e"), ("▁t", "he")]
    assert [pair for pair in found if "".join(pair) == "inn"] == [("in", "n"), ("i", "nn")]
    ranks = [IDS["".join(pair)] for pair in found]
    assert ranks == sorted(ranks)


def slow_ids(text):
    """Merge the best-scored pair of neighbours, the leftmost first, until none is a piece."""
    score = {piece: value for piece, value, kind in PIECES if kind == NORMAL}
    parts = list(text.replace(" ", "▁"))
    while True:
        joins = [
            (-score[a + b], place) for place, (a, b) in enumerate(pairwise(parts)) if a + b in score
        ]
        if not joins:
            break
        _, place = min(joins)
        parts[place : place + 2] = ["".join(parts[place : place + 2])]
    found = []
    for part in parts:
        raw = [IDS[f"<0x{byte:02X}>"] for byte in part.encode()]
        found += [IDS[part]] if part in score else raw
    return found


@settings(max_examples=300, deadline=None)
@given(text=TEXTS.filter(encodable))
def test_merging_by_rank_is_merging_by_score(tokenizer, text):
    for added in sorted(ADDED, key=len, reverse=True):
        text = text.replace(added, "")
    if not any(added in text for added in ADDED):
        assert tokenizer.encode(text).ids[1:] == slow_ids(text)


def test_the_folder_s_tokenizer_is_the_same_and_draws_noise_from_all_ids(converted, tokenizer):
    target = load_target(converted.folder)
    text = "the  beginning\n<eos>ß"
    assert target.tokenizer.encode(text) == tokenizer.encode(text).ids
    assert target.tokenizer.decode(target.tokenizer.encode(text)) == f"<bos>{text}"
    assert target.tokenizer.eos_token_ids == {1}
    assert target.noise_high == target.vocab_size == len(PIECES)


def test_streamed_text_is_the_decoded_text(converted):
    tokenizer = load_target(converted.folder).tokenizer
    text = "the beginning é ß 😀  [tool]\n in"
    detokenizer = tokenizer.detokenizer
    for token in tokenizer.encode(text)[1:]:
        detokenizer.add_token(token)
    detokenizer.finalize()
    assert detokenizer.text == text


REAL = Path("build/gemma3_270m/target/tokenizer.json")


@pytest.fixture(scope="module")
def real():
    if not REAL.is_file():
        pytest.skip(f"{REAL} is not there: it is made by the profile gemma3_270m")
    return Tokenizer.from_file(str(REAL))


def test_gemma_s_ids_are_the_published_ones(real):
    text = "The capital of France is"
    assert real.encode(text).ids == [2, 818, 5279, 529, 7001, 563]
    assert real.decode(real.encode(text).ids) == text


@settings(max_examples=100, deadline=None)
@given(text=TEXTS.filter(encodable))
def test_every_text_comes_back_from_gemma_s(real, text):
    begin, *rest = real.encode(text).ids
    assert begin == 2
    assert real.decode(rest, skip_special_tokens=False) == text
