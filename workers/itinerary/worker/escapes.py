"""Register with kombu, in a worker, the type by which objects that resemble kombu's own arrive unchanged."""

from typing import Any

from itinerary.protocol.typed_values import ESCAPED, unescaped


class _Escaped:
    """A class that is never created: kombu wants one for each type that it decodes."""


def learn_escapes() -> None:
    """Let this process decode escaped objects; calling it again changes nothing."""

    from kombu.utils.json import register_type  # absent from the oldest releases, which the start check refuses

    def encode(value: Any) -> Any:
        raise TypeError(f"{value!r} is not sent by workers")

    decode: Any = unescaped
    register_type(_Escaped, ESCAPED, encode, decode)
