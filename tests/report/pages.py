"""Reads a page the way a browser does, as far as the tests need."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

REFERENCES = ("src", "href", "srcset", "data", "poster", "action", "background", "xlink:href")


@dataclass
class Page(HTMLParser):
    """Tags in order, their references, and the text."""

    tags: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    styles: str = ""
    text: str = ""

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
        for name, value in attrs:
            if name in REFERENCES:
                (self.links if name == "href" else self.sources).append(value)

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "style":
            self.styles += data
        else:
            self.text += data
