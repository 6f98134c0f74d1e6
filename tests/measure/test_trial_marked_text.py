import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from transformers import PreTrainedTokenizerFast

from diffdraft.measure.trial import marked_text as module
from diffdraft.targets.corpus import train_tokenizer

TEXT = "in the beginning was the word\nand the word was “naïve”"


@pytest.fixture(scope="module")
def tokenizer():
    trained = train_tokenizer([TEXT] * 40, 300)
    return TokenizerWrapper(PreTrainedTokenizerFast(tokenizer_object=trained))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@given(data=st.data(), cut=st.integers(1, 12))
def test_without_marks_the_text_is_that_of_the_tokens(tokenizer, data, cut):
    ids = tokenizer.encode(TEXT)
    text = module.MarkedText(tokenizer, ids[:3], module.UNMARKED)
    guessed = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    pieces = [
        text.add(ids[place : place + cut], guessed[place : place + cut])
        for place in range(3, len(ids), cut)
    ]
    assert tokenizer.decode(ids[:3]) + "".join(pieces) + text.finish() == TEXT


def test_guessed_tokens_are_marked_in_runs(tokenizer):
    ids = tokenizer.encode(" the word was the word")
    words = [tokenizer.decode([token]) for token in ids]
    assert words == [" the", " word", " was", " the", " word"]
    text = module.MarkedText(tokenizer, [], module.BRACKETED)
    shown = text.add(ids[:4], [False, True, True, False]) + text.add(ids[4:], [True])
    assert shown.lstrip() == "the[ word was] the[ word]"
    assert text.finish() == ""


def test_a_first_word_keeps_its_blank(tokenizer):
    text = module.MarkedText(tokenizer, tokenizer.encode("in the"), module.BRACKETED)
    assert text.add(tokenizer.encode(" word"), [True]) == "[ word]"


def test_a_character_of_several_tokens_is_told_once_and_whole(tokenizer):
    ids = tokenizer.encode("☃")
    assert len(ids) > 1
    text = module.MarkedText(tokenizer, tokenizer.encode("the"), module.BRACKETED)
    parts = [text.add([token], [place > 0]) for place, token in enumerate(ids)]
    assert parts == [""] * (len(ids) - 1) + ["[☃]"]


def test_half_a_character_at_the_end_is_a_replacement_with_its_mark(tokenizer):
    ids = tokenizer.encode("☃")[:-1]
    text = module.MarkedText(tokenizer, tokenizer.encode("the"), module.BRACKETED)
    assert text.add(ids, [True] * len(ids)) == ""
    assert set(text.finish()) == {"[", "]", module.REPLACEMENT}


def test_text_cannot_steer_a_terminal(tokenizer):
    ids = tokenizer.encode("a\x1b[2Jb\r\x07c\n\td\x9b")
    text = module.MarkedText(tokenizer, tokenizer.encode("the"), module.UNMARKED)
    shown = text.add(ids, [False] * len(ids)) + text.finish()
    assert shown == "a\ufffd[2Jb\ufffd\ufffdc\n\td\ufffd"


@pytest.mark.parametrize(
    ("stream", "plain", "environment", "marks"),
    [
        (Terminal(), False, {"TERM": "xterm"}, module.UNDERLINED),
        (Terminal(), False, {"TERM": "dumb"}, module.BRACKETED),
        (Terminal(), False, {"TERM": "xterm", "NO_COLOR": "1"}, module.BRACKETED),
        (io.StringIO(), False, {"TERM": "xterm"}, module.BRACKETED),
        (Terminal(), True, {"TERM": "xterm"}, module.UNMARKED),
        (io.StringIO(), True, {}, module.UNMARKED),
    ],
)
def test_which_marks(stream, plain, environment, marks):
    assert module.marks_for(stream, plain, environment) == marks
