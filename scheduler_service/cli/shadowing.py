"""`shadow`: what another scheduler would fire over a span of time, beside what ours would. Runs nothing."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli import other_sources
from scheduler_service.cli.beat_sources import BEAT_OPTIONS, BeatPlace
from scheduler_service.cli.connect import instant_text
from scheduler_service.cli.import_others import System, Unpickle
from scheduler_service.cli.importing import now
from scheduler_service.cli.migrating import tracked
from scheduler_service.cli.shared_options import option, with_options
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from itinerary.protocol.instants import Instant
    from scheduler_service.cli.importing import Imported

_MOST_HOURS = 24 * 400
_BEATS: Final = ("place", "from_json", "from_database", "from_redbeat", "only_config")


def _from(name: str, metavar: str, text: str) -> Any:
    return Annotated[str | None, typer.Option(f"--from-{name}", metavar=metavar, help=text, show_default=False)]


_OTHERS: Final = (
    option("from_crontab", _from("crontab", "FILE", "A crontab; - for standard input.")),
    option("system", System),
    option("from_kubernetes", _from("kubernetes", "FILE", "CronJob manifests; - for standard input.")),
    option("from_systemd", _from("systemd", "PLACE", "A folder of units, a .timer file, or - for systemctl cat.")),
    option("from_apscheduler", _from("apscheduler", "MODULE:SCHEDULER", "A scheduler of APScheduler 3.")),
    option("unpickle", Unpickle, False),
    option("from_rq", _from("rq", "URL", "The Redis of rq-scheduler.")),
)
_NO_TASK: Final = "shadow"  # of the times alone


@with_options((*BEAT_OPTIONS, *_OTHERS))
def shadow(
    hours: Annotated[int, typer.Option(help="How far ahead.", min=1, max=_MOST_HOURS)] = 48,
    start: Annotated[str | None, typer.Option("--from", help="From this time on; default now.")] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Compare another scheduler's times with ours over the coming hours and list the differences; runs nothing.

    The scheduler is a beat, named as for `jobs import-beat`, or one that another import reads, such as --from-crontab.
    """
    from itinerary.protocol.instants import HOUR, parse_instant
    from scheduler_service.cli.output import print_json
    from scheduler_service.cli.shadows import print_shadow

    text = instant_text(start, "--from")
    begin = now() if text is None else parse_instant(text)
    end = begin + hours * HOUR
    others = {each.name: given.pop(each.name) for each in _OTHERS}
    named = [name for name in others if name.startswith("from_") and others[name] is not None]
    if not named:
        who, lines, empty = "beat", *_of_beat(BeatPlace("shadow", **given), begin, end)
    else:
        if extra := [*named[1:], *(name for name in _BEATS if given[name])]:
            one, other = _option(named[0]), _option(extra[0])
            raise BadValue(one, others[named[0]], f"name one source: leave out {other}, or {one}")
        who, empty = named[0].removeprefix("from_"), None
        lines = list(_of_other(who, _read(who, {**given, **others}, begin, end), begin, end))
    if as_json:
        print_json({"items": lines})
    else:
        print_shadow(who, lines, begin, end)
    if empty is not None:
        print(f"itinerary: {empty}", file=sys.stderr)


def _option(name: str) -> str:
    return "MODULE:APP" if name == "place" else f"--{name.replace('_', '-')}"


def _of_beat(place: BeatPlace, begin: "Instant", end: "Instant") -> tuple[list[dict[str, Any]], str | None]:
    from scheduler_service.cli.shadows import shadow_body
    from scheduler_service.migrating.beat_moving import compare_entry, move_entries

    read = place.read(begin)
    lines = []
    for each in tracked(move_entries(read.entries, read.app, begin, clocks=False, app_known=read.app_known)):
        found = compare_entry(each, read.app, begin, end)
        lines.append(shadow_body("beat", each.converted, found))
    return lines, read.empty


def _read(who: str, given: Mapping[str, Any], begin: "Instant", end: "Instant") -> "Imported":
    place, timezone = given[f"from_{who}"], given["timezone"]
    match who:
        case "crontab":
            return other_sources.of_crontab(place, task=_NO_TASK, system=given["system"], timezone=timezone)
        case "kubernetes":
            return other_sources.of_kubernetes(place, task=_NO_TASK, timezone=timezone or "UTC")
        case "systemd":
            return other_sources.of_systemd(place, task=_NO_TASK, timezone=timezone)
        case "apscheduler":
            return other_sources.of_apscheduler(
                place, task=_NO_TASK, python=given["python"], unpickle=given["unpickle"], span=(begin, end)
            )
        case _:
            return other_sources.of_rq(place, task=_NO_TASK, timezone=timezone)


def _of_other(who: str, read: "Imported", begin: "Instant", end: "Instant") -> Iterator[dict[str, Any]]:
    from scheduler_service.cli.shadows import shadow_body
    from scheduler_service.migrating.comparing import compare_converted
    from scheduler_service.migrating.their_times import NotTheirs

    for each in tracked(read.found):
        try:
            found, why = compare_converted(who, each, begin, end), None
        except NotTheirs as exc:
            found, why = None, str(exc)
        yield shadow_body(who, each, found, why)
