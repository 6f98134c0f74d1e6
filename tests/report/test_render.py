"""Escaping: whatever a value holds, a reader sees that text and nothing else happens."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from diffdraft.report import document, render
from diffdraft.report.cells import Cell, Table
from diffdraft.report.document import Picture, Report, Section

from .pages import Page

HOSTILE = "<script>alert('x')</script> & | `a` *b* [c](https://d.example) ![e](f) $x^2$ __g__\n# h"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")


def report_of(text):
    blocks = [
        document.heading(text),
        document.paragraph(text),
        document.bullets([text]),
        document.table(Table(text, [text], [[Cell(text)]], note=text)),
        document.picture(Picture("plot", text, PNG)),
        document.commands(["make run"]),
    ]
    card = document.Card("rprm", text, text, text, text, None, [(text, text)], True)
    return Report(text, text, text, [card], [Section("a", text, blocks)])


def test_hostile_text_stays_text_in_html():
    page = Page.parse(render.html(report_of(HOSTILE)))
    assert "script" not in page.tags
    assert page.tags.count("img") == 1
    assert page.links == ["#a"]
    assert page.text.count("<script>alert('x')</script>") >= 8


def test_hostile_text_stays_text_in_markdown():
    text = render.markdown(report_of(HOSTILE))
    page = Page.parse(MarkdownIt("commonmark").enable("table").render(text))
    assert not {"script", "a", "em", "code"} & set(page.tags) - {"code"}
    assert page.tags.count("img") == 1
    assert page.tags.count("code") == 1  # the block of commands
    assert page.links == []
    assert page.tags.count("table") == 1


# What a renderer changes even in literal text: runs of space and line ends.
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")))


@given(WORDS)
def test_escaped_markdown_renders_as_the_text_itself(word):
    markdown = MarkdownIt("commonmark").enable("table")
    inline = Page.parse(markdown.renderInline(render.escape_markdown(word)))
    assert (inline.tags, inline.text) == ([], word)
    cell = Page.parse(markdown.render(f"| {render.escape_markdown(word)} |\n| --- |"))
    assert cell.tables[""] == [[word]]
    if word:
        block = Page.parse(markdown.render(render.escape_markdown(word)))
        assert (block.tags, block.text) == (["p"], word + "\n")


@pytest.mark.parametrize(
    "text", ["+0.02", "≥ 0.05, < 0, > 0", "a_b & c", "−0.1 to 0.2", "x < y", "primary.FULL: FAIL"]
)
def test_ordinary_text_is_left_as_it_is(text):
    assert render.escape_markdown(text) == text


@pytest.mark.parametrize(
    "text", ["# a", "> a", "- a", "1. a", "2) a", "---", "===", "+", "&lt;", "&#60;", "<b>", "~~~"]
)
def test_text_that_means_something_is_escaped(text):
    page = Page.parse(MarkdownIt("commonmark").render(render.escape_markdown(text)))
    assert (page.tags, page.text) == (["p"], text + "\n")


def test_the_page_holds_its_images():
    page = Page.parse(render.html(report_of("t")))
    [source] = page.sources
    kind, data = source.split(",", 1)
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data) == PNG
    assert Picture("plot", "t", PNG).width == 640


def test_sections_out_of_the_summary_are_only_in_the_page():
    section = Section("b", "only in the page", [], in_summary=False)
    report = Report("t", "p", "e", [], [section])
    assert "only in the page" in render.html(report)
    assert "only in the page" not in render.markdown(report)
