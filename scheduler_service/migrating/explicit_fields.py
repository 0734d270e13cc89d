"""Cron fields for schedulers whose every time is a wall time, as explicit values. Pure.

A minute or an hour that begins with `*` follows elapsed time here. Where another scheduler does not, it is written as
its range, so that the rules for changes of the clocks hold.
"""

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.cron_fields import HOUR, MINUTE, FieldKind, read_field, values_text
from scheduler_service.migrating.converted import CannotConvert


def explicit(kind: FieldKind, text: str, timezone: str) -> str:
    """The field without a leading `*` where that would mean something else; CannotConvert for what is no field."""
    try:
        read = read_field(kind, text.lower(), "")
    except BadValue as exc:
        raise CannotConvert(f"its {kind.name} {text!r} is not understood: {exc.allowed}") from exc
    if read.mask == kind.full:
        return "*" if timezone == "UTC" or kind not in (MINUTE, HOUR) else f"{kind.low}-{kind.high}"
    if text.startswith("*/") and not read.special:
        return text if timezone == "UTC" and kind in (MINUTE, HOUR) else values_text(kind, read.mask)
    return text.lower()
