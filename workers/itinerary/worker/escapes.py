"""Teaches kombu, in a worker, the one type by which objects that look like kombu's own arrive unchanged."""

from typing import Any

from itinerary.protocol.typed_values import ESCAPED, unescaped


class _Escaped:
    """Never made: kombu wants a class for each type that it decodes."""


def learn_escapes() -> None:
    """From now on this process decodes them; told again, nothing changes."""

    from kombu.utils.json import register_type  # absent from the oldest releases, refused by name at the start

    def encode(value: Any) -> Any:
        raise TypeError(f"{value!r} is not sent by workers")

    decode: Any = unescaped
    register_type(_Escaped, ESCAPED, encode, decode)
