"""Bounds on the command line: `--concurrency 5`, `--rate 90/10s`, `--override acme=20,90/10s`; `none` lifts one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue

_NONE: Final = "none"
_A_RATE: Final = "give COUNT/TIME such as 90/10s, or none"
_A_NUMBER: Final = "give a whole number such as 5, or none"
Concurrency = Annotated[
    str | None, typer.Option(help="How many runs may be in flight; none: any number.", show_default=False)
]
Rate = Annotated[
    str | None, typer.Option(help="How many runs may start in a time, 90/10s; none: any number.", show_default=False)
]
Description = Annotated[str | None, typer.Option(help="The purpose.", show_default=False)]


def bounds_change(concurrency: str | None, rate: str | None) -> dict[str, Any]:
    """Return the change of the bounds that were given; none of them is null."""
    change: dict[str, Any] = {}
    if concurrency is not None:
        change["concurrency"] = _concurrency(concurrency, "--concurrency")
    if rate is not None:
        change["rate"] = _rate(rate, "--rate")
    return change


def overrides_change(given: Sequence[str]) -> dict[str, Any]:
    """Read `KEY=5`, `KEY=90/10s`, `KEY=5,90/10s` and `KEY=none`; a key may contain `=`."""
    change: dict[str, Any] = {}
    for text in given:
        key, equals, bounds = text.rpartition("=")
        if not (key and equals):
            raise BadValue("--override", text, "give KEY=5, KEY=90/10s, both with a comma, or KEY=none")
        change[key] = None if bounds == _NONE else _override(bounds)
    return change


def bounds_text(bounds: Mapping[str, Any]) -> str:
    """Return the bounds as text: `5 at a time, 90 in 10s`."""
    concurrency, rate = bounds.get("concurrency"), bounds.get("rate")
    parts = [] if concurrency is None else [f"{concurrency:,} at a time"]
    parts += [] if rate is None else [f"{rate['count']:,} in {rate['per']}"]
    return ", ".join(parts)


def _override(text: str) -> dict[str, Any]:
    parts = text.split(",")
    bounds: dict[str, Any] = {}
    for part in parts:
        if "/" in part:
            bounds["rate"] = _rate(part, "--override")
        else:
            bounds["concurrency"] = _concurrency(part, "--override")
    if len(bounds) < len(parts):
        raise BadValue("--override", text, "give one number, one rate, or one of each")
    return bounds


def _concurrency(text: str, option: str) -> int | None:
    if text == _NONE:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadValue(option, text, _A_NUMBER)
    return int(text)


def _rate(text: str, option: str) -> dict[str, Any] | None:
    if text == _NONE:
        return None
    count, slash, per = text.partition("/")
    if not slash or not (count.isascii() and count.isdigit() and len(count) < 10):
        raise BadValue(option, text, _A_RATE)
    return {"count": int(count), "per": per}
