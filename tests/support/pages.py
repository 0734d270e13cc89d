"""The Markdown pages of the checkout, as a reader's browser shows them."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from tests.support.processes import MANUAL, REPOSITORY

FOLDERS: Final = ("deploy", "scheduler_service", "tests", "workers")
PAGES: Final = sorted(
    path
    for path in chain(REPOSITORY.glob("*.md"), *(REPOSITORY.glob(f"{folder}/**/*.md") for folder in FOLDERS))
    if "static" not in path.parts
)
INDEX: Final = MANUAL / "README.md"
CHAPTERS: Final = [path for path in PAGES if path.parent == MANUAL and path != INDEX]
"""The manual's pages but its contents."""


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    """The headings of a page, without marks of code."""
    return [found.replace("`", "") for found in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)]


def anchors(page: Path) -> list[str]:
    """The anchors that a link may name in a page: its headings, as GitHub makes them."""
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)]


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Target and anchor of each link and picture to something in the repository."""
    for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)]*))?\)", prose(page)):
        yield target, anchor
