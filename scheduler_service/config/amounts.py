"""Settings that are amounts: durations as texts, and how many runs may lie in a queue."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, PlainSerializer

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Duration, format_duration, parse_duration

_MOST_IN_A_WINDOW: Final = 1_000_000


def _duration(value: Any) -> Duration:
    try:
        return parse_duration(value)
    except BadValue as exc:
        raise ValueError(exc.allowed) from exc


def _window(value: Any) -> Any:
    text = str(value).lower()
    if text == "auto":
        return text
    if re.fullmatch("[0-9]{1,7}", text) is None or not 1 <= int(text) <= _MOST_IN_A_WINDOW:
        raise ValueError(f"give auto, or a number of runs from 1 to {_MOST_IN_A_WINDOW:,}")
    return int(text)


DurationText = Annotated[
    int, BeforeValidator(_duration), PlainSerializer(format_duration, return_type=str, when_used="json")
]
PublishWindow = Annotated[Literal["auto"] | int, BeforeValidator(_window)]
