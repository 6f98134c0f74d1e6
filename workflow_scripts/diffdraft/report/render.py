"""One report to two texts: a self-contained HTML page and a Markdown summary."""

import re
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from diffdraft.report import templates
from diffdraft.report.document import Report

# Marks of emphasis, code, links, tables and strike-through; an underscore at the end of a word; an
# angle bracket that could open a tag.
SPECIAL = re.compile(r"[\\`*\[\]|~]|!(?=\[)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|<(?=[A-Za-z/!?])")
ENTITY = re.compile(r"&(?=#?\w+;)")
# What makes a quotation, a heading, a list or a rule at the start of a line.
BLOCK_START = re.compile(r"^(\d*)(>|#|[-+=]+(?=\s|$)|[.)](?=\s|$))")
LOADER = FileSystemLoader(templates.FOLDER)
LAYOUT: dict[str, Any] = {"loader": LOADER, "undefined": StrictUndefined, "trim_blocks": True}


class Verbatim(str):
    """Text that goes into a Markdown code block, where nothing is special."""


def html(report: Report) -> str:
    """The page. All text is escaped; styles and images are inside it, and it has no script."""
    environment = Environment(autoescape=True, **LAYOUT)
    css = Markup(LOADER.get_source(environment, "report.css")[0])
    return environment.get_template("index.html.j2").render(r=report, css=css)


def markdown(report: Report) -> str:
    """The summary. Every value is escaped on output; figures are links to `figures/`."""
    environment = Environment(finalize=_for_markdown, lstrip_blocks=True, **LAYOUT)
    environment.filters["verbatim"] = Verbatim
    text = environment.get_template("summary.md.j2").render(r=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _for_markdown(value: Any) -> str:
    return value if isinstance(value, Verbatim) else escape_markdown(str(value))


def escape_markdown(text: str) -> str:
    """Make text literal in Markdown, tables included: no markup, link, HTML or line break.

    A sign that means nothing where it stands is left alone, since the summary is also read raw.
    """
    text = " ".join(text.split())
    text = ENTITY.sub("&amp;", text)
    text = SPECIAL.sub(r"\\\g<0>", text)
    return BLOCK_START.sub(r"\1\\\2", text)
