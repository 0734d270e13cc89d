"""Apps whose beat keeps its schedule outside `beat_schedule`: refused, with the command that reads it where it is."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from itinerary.apps.beat_scheduler import CELERY, DJANGO, REDBEAT, REDBEAT_PREFIX
from itinerary.protocol.errors import ItineraryError

EMPTY: Final = (
    "the app's beat_schedule is empty: where beat is started with -S for django-celery-beat or RedBeat, "
    "give --from-database URL or --from-redbeat URL"
)


def refuse_elsewhere(scheduler: Mapping[str, Any], place: str, command: str) -> None:
    """ItineraryError where the app's beat reads more than `beat_schedule`, with the `command` that reads it."""
    named, family = scheduler["name"], scheduler["family"]
    if family == DJANGO:
        held = scheduler["database"]
        where = "in the database of Django" if held is None else f"in Django's database {held}"
        raise ItineraryError(
            f"beat_scheduler of {place} is {named}: its schedule is in django-celery-beat's tables, "
            f"{where}; read it by: {command} --from-database {shlex.quote(scheduler['url'])}"
        )
    if family == REDBEAT:
        prefix = scheduler["prefix"]
        more = "" if prefix == REDBEAT_PREFIX else f" --redbeat-prefix {shlex.quote(prefix)}"
        raise ItineraryError(
            f"beat_scheduler of {place} is {named}: its schedule is in RedBeat's keys {prefix}* of Redis; "
            f"read it by: {command} --from-redbeat {shlex.quote(scheduler['url'])}{more}"
        )
    if family != CELERY:
        raise ItineraryError(
            f"beat_scheduler of {place} is {named}, which keeps a schedule that no import here reads: "
            f"read what beat_schedule holds, and nothing else, by: {command} --only-config"
        )
