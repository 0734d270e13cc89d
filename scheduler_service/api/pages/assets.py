"""The static files: under a name that changes with their contents, and kept by browsers for a year.

Promises that a page asks for one style sheet, and that nothing old is shown after an upgrade. A name of other contents,
as of another release behind one address, is answered with the present ones and kept for an hour.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER: Final = Path(__file__).parent / "static"
_SHEET: Final = "all.css"
_SHEETS: Final = ("vendor/pico.min.css", "vendor/uplot.min.css", "itinerary.css")
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_DIGITS: Final = 16


def asset(name: str) -> str:
    """Return the address of a static file; all.css is the style sheet of every page."""
    return f"/static/{_contents()}/{name}"


class Assets(StaticFiles):
    """Serves the files, with or without the name of their contents before their own."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with a file; 404 if there is none."""
        first, _, rest = path.partition("/")
        named = len(first) == _DIGITS and set(first) <= set("0123456789abcdef") and bool(rest)
        answer = await self._file(rest if named else path, scope)
        if first == _contents():
            answer.headers["Cache-Control"] = _FOR_EVER
        return answer

    async def _file(self, path: str, scope: Scope) -> Response:
        if path != _SHEET:
            return await super().get_response(path, scope)
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        return Response(_sheet(), media_type="text/css")


@cache
def _sheet() -> bytes:
    return b"\n".join((FOLDER / name).read_bytes() for name in _SHEETS)


@cache
def _contents() -> str:
    """Name the contents of all files, vendored ones too: a page of one release loads no file of another."""
    digest = hashlib.sha256()
    for path in sorted(one for one in FOLDER.rglob("*") if one.is_file()):
        digest.update(f"{path.relative_to(FOLDER)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:_DIGITS]
