"""Pickles of plain values only, read without running anything that they name.

A pickle may call any function of any module. Here it may name dates alone, so that lists, objects, texts and numbers
come out, and everything else is refused by its name.
"""

import io
import pickle
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Final

_KNOWN: Final = {("datetime", kind.__name__): kind for kind in (date, datetime, time, timedelta, timezone)}
MOST_BYTES: Final = 1024 * 1024


class NotPlain(Exception):
    """A pickle that names a class or a function; the text says which."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse every name but those of dates; see `pickle.Unpickler`."""
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise NotPlain(f"{module}.{name}") from None


def load_plain(data: bytes) -> Any:
    """The value; NotPlain where it names anything, ValueError where it is no pickle."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        return _Plain(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as exc:  # a torn pickle raises anything
        raise ValueError(f"it is no pickle: {type(exc).__name__}: {exc}") from exc
