"""The manual at `/manual`: a page for each Markdown file of its folder, with the contents at the side.

Promises: only files of that folder are served, each rendered once in a process; everyone who may see the dashboard may
read all of it. The index page gives the order of the contents.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from posixpath import normpath
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse

import scheduler_service
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.markdown import Rendered, links, render
from scheduler_service.api.pages.shell import READER, PageRoute, page

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
FOLDER: Final = Path(scheduler_service.__file__).parent / "manual"
INDEX: Final = "README"


@dataclass(frozen=True)
class Entry:
    """A line of the contents."""

    name: str
    title: str
    address: str


@dataclass(frozen=True)
class Group:
    """Entries of the contents under one heading of the index."""

    title: str
    entries: tuple[Entry, ...]


@router.get("/manual")
def index(request: Request) -> Response:
    """Show the contents."""
    return _shown(request, INDEX)


@router.get("/manual/{name}")
def chapter(request: Request, name: str) -> Response:
    """Show one page."""
    if name == INDEX or name not in _names():
        raise Problem(404, "no page of this name in the manual")
    return _shown(request, name)


@router.get("/manual/pictures/{name}")
def picture(name: str) -> Response:
    """Serve a picture of a page."""
    if name not in _pictures():
        raise Problem(404, "no picture of this name in the manual")
    return FileResponse(FOLDER / "pictures" / name)


@cache
def contents() -> tuple[Group, ...]:
    """Return the pages in reading order, grouped as the index page groups them."""
    groups: dict[str, list[Entry]] = {}
    for heading, target in links(_text(INDEX)):
        name = target.removesuffix(".md")
        if name in _names():
            entry = Entry(name, _rendered(name).title, f"/manual/{name}")
            groups.setdefault(heading, []).append(entry)
    return tuple(Group(title, tuple(entries)) for title, entries in groups.items())


def _shown(request: Request, name: str) -> Response:
    rendered = _rendered(name)
    order = [entry for group in contents() for entry in group.entries]
    following = [entry.name for entry in order].index(name) + 1 if name != INDEX else 0
    return page(
        request,
        "manual.html",
        name=name,
        rendered=rendered,
        sections=[heading for heading in rendered.headings if heading.level == 2],
        contents=contents(),
        following=order[following] if following < len(order) else None,
    )


@cache
def _rendered(name: str) -> Rendered:
    return render(_text(name), _resolve)


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text("utf-8")


@cache
def _names() -> frozenset[str]:
    return frozenset(path.stem for path in FOLDER.glob("*.md"))


@cache
def _pictures() -> frozenset[str]:
    return frozenset(path.name for path in (FOLDER / "pictures").iterdir())


def _resolve(link: str) -> str | None:
    """Return the address of a page or picture of the manual; None for any other file of the repository."""
    path, mark, anchor = link.partition("#")
    target = normpath(path)
    name = target.removesuffix(".md")
    if target == f"{INDEX}.md":
        return f"/manual{mark}{anchor}"
    if target == f"pictures/{Path(target).name}" and Path(target).name in _pictures():
        return f"/manual/{target}"
    return f"/manual/{name}{mark}{anchor}" if name != target and name in _names() else None
