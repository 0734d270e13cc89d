"""Markdown to HTML: headings with anchors, tables that become cards, links of the site.

Promises: HTML in the text is escaped; a link to a file that this site does not serve becomes text, not a dead link.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_DIAGRAM: Final = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_ARROW: Final = re.compile(r"^ +(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
Resolve = Callable[[str], str | None]


@dataclass(frozen=True)
class Heading:
    """A heading with the anchor that links name."""

    level: int
    title: str
    anchor: str


@dataclass(frozen=True)
class Rendered:
    """One page: its headings in order, the first being its title, and its HTML."""

    headings: tuple[Heading, ...]
    html: str

    @property
    def title(self) -> str:
        """Return the text of the first heading."""
        return self.headings[0].title


def render(text: str, resolve: Resolve) -> Rendered:
    """Render a page; `resolve` gives a relative link's address on this site, or None where the site has none."""
    tokens = _MARKDOWN.parse(_DIAGRAM.sub(_transitions, text))
    headings = tuple(_with_anchors(tokens))
    _label_cells(tokens)
    for token in tokens:
        _resolve_links(token.children or [], resolve)
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Rendered(headings, html)


def links(text: str) -> Iterator[tuple[str, str]]:
    """Return each link below a second-level heading: that heading, and the link's target."""
    heading = ""
    tokens = _MARKDOWN.parse(text)
    for token, following in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            heading = _plain(following)
        for child in token.children or []:
            if child.type == "link_open":
                yield heading, str(child.attrs["href"])


def anchor_of(title: str) -> str:
    """Return the anchor of a heading, as GitHub builds it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _with_anchors(tokens: list[Token]) -> Iterator[Heading]:
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        title = _plain(inline)
        anchor = anchor_of(title)
        token.attrSet("id", anchor)
        yield Heading(int(token.tag[1]), title, anchor)
        assert inline.children is not None
        label = f"Link to this section: {title}"
        link: dict[str, str | int | float] = {"href": f"#{anchor}", "class": "anchor", "aria-label": label}
        text = Token("text", "", 0, content="#")
        inline.children += [Token("link_open", "a", 1, attrs=link), text, Token("link_close", "a", -1)]


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))


def _label_cells(tokens: list[Token]) -> None:
    """Give each cell its column's name, which a narrow screen shows beside it."""
    columns: list[str] = []
    column = 0
    for token, following in pairwise(tokens):
        if token.type == "table_open":
            columns = []
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open":
            columns.append(_plain(following))
        elif token.type == "td_open":
            token.attrSet("data-label", columns[column])
            column += 1


def _resolve_links(children: list[Token], resolve: Resolve) -> None:
    dropped: list[bool] = []
    for token in children:
        if token.type == "image":
            token.attrSet("src", resolve(str(token.attrs["src"])) or "")
        elif token.type == "link_open":
            dropped.append(_is_dropped(token, resolve))
        elif token.type == "link_close" and dropped.pop():
            token.tag = "span"


def _is_dropped(link: Token, resolve: Resolve) -> bool:
    href = str(link.attrs["href"])
    if href.startswith("#"):
        return False
    if href.startswith(("https://", "http://")):
        link.attrSet("rel", "noopener noreferrer")
        return False
    address = resolve(href)
    if address is not None:
        link.attrSet("href", address)
        return False
    link.tag, link.attrs = "span", {"title": "A file of the repository"}
    return True


def _transitions(diagram: re.Match[str]) -> str:
    """Show the arrows of a state diagram as a table: this site draws no diagrams."""
    lines = ["| from | to | by |", "|---|---|---|"]
    for source, target, event in _ARROW.findall(diagram[1]):
        if source != "[*]" and target != "[*]":
            lines.append(f"| `{source}` | `{target}` | {event} |")
    return "\n".join(lines) + "\n"
