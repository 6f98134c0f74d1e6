"""Reads a page the way a browser does, as far as the tests need."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

REFERENCES = ("src", "href", "srcset", "data", "poster", "action", "background", "xlink:href")


@dataclass
class Page(HTMLParser):
    """Tags in order, their references, the text, and the rows of each table by its caption."""

    tags: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    styles: str = ""
    text: str = ""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    caption: str = ""
    inside: str = ""

    def __post_init__(self):
        super().__init__(convert_charrefs=True)

    @classmethod
    def parse(cls, html):
        page = cls()
        page.feed(html)
        page.close()
        return page

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag
        for name, value in attrs:
            if name in REFERENCES:
                (self.links if name == "href" else self.sources).append(value)
        if tag == "caption":
            self.caption = ""
        elif tag == "tr":
            self.tables.setdefault(self.caption, []).append([])
        elif tag in ("td", "th"):
            self.tables[self.caption][-1].append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "style":
            self.styles += data
            return
        self.text += data
        if self.inside == "caption":
            self.caption += data
        elif self.inside in ("td", "th"):
            self.tables[self.caption][-1][-1] += data
