"""Addresses of targets, whose parts are often secrets: a short digest to name one, and texts without its parts."""

import hashlib
import re
from typing import Final
from urllib.parse import unquote, urlsplit

_TELLING: Final = 5
"""Shorter pieces of an address are words such as `hook`, not secrets."""


def digest(url: str) -> str:
    """Return eight digits that stay the same for the address."""
    return hashlib.sha256(url.encode()).hexdigest()[:8]


def masked(text: str, url: str, *, host: bool = False) -> str:
    """Return the text without the pieces of the URL's path and query, and of its `host` and login where asked."""
    parts = urlsplit(url)
    given = f"{parts.netloc}/{parts.path}?{parts.query}" if host else f"{parts.path}?{parts.query}"
    pieces = {piece for piece in re.split("[/?&=@:]", given) if len(piece) >= _TELLING}
    for piece in sorted({*pieces, *map(unquote, pieces)}, key=len, reverse=True):
        text = text.replace(piece, "***")
    return text
