"""The fields of a job, a row each: reader, document, form and the options of the command line are made of this table.

Owns no default: a job that omits a field has the one of `core.model.Job`. Light, since every command imports it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.attempt_logs import KeepLogs
from itinerary.protocol.field_types import Choice, FieldType, Group, Plain, Span, Time, read_object
from itinerary.protocol.identity import check_job_id
from itinerary.protocol.instants import DAY
from itinerary.protocol.limits import JOB_LIMITS, Key
from itinerary.protocol.run_fields import RETRY, RUN_FIELDS
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.fields import MISFIRE, OVERLAP, TEXT, Tags
from scheduler_service.core.contract.ping_json import PINGS

JOB_ID: Final = Plain(check_job_id, str)
SCHEDULE: Final = Plain(read_object, dict)
ARGUMENTS: Final = "Arguments"
PLACE: Final = "Where and how it runs"
TROUBLE: Final = "When it fails or comes too late"
NOTES: Final = "Bounds, tags, description"


@dataclass(frozen=True, slots=True)
class JobField:
    """A field: its JSON type, its label in the form, and its sentence in the document and the command line's help.

    `part`, `hint` and `lines` (of its input) are the form's; `option` is the command line's where it is not the name.
    `inner` are the fields of a group. A `sparse` field is stored only where it is given: an older release refuses it.
    """

    name: str
    type: FieldType
    label: str
    help: str
    part: str = ""
    hint: str = ""
    lines: int = 1
    option: str = ""
    inner: "tuple[JobField, ...]" = ()
    sparse: bool = False

    @property
    def sentence(self) -> str:
        """The help, with the bounds of a duration, which no JSON type can say."""
        return f"{self.help}, {self.type.bounds}" if isinstance(self.type, Span) else self.help


def _inner(group: Group[Any], *rows: tuple[str, str, str, str]) -> tuple[JobField, ...]:
    return tuple(JobField(name, group.types[name], label, help, option=option) for name, label, help, option in rows)


_RUN: Final = RUN_FIELDS

JOB_FIELDS: Final = (
    JobField("job_id", JOB_ID, "Id", "It cannot be changed later"),
    JobField("title", TEXT, "Title", "Free text"),
    JobField("task", _RUN["task"], "Task", "Name of the Celery task"),
    JobField("args", _RUN["args"], "In order", "Positional arguments, a JSON list", ARGUMENTS, "JSON list", 2),
    JobField("kwargs", _RUN["kwargs"], "By name", "Keyword arguments, a JSON object", ARGUMENTS, "JSON object", 4),
    JobField(
        "headers", _RUN["headers"], "Message headers", "A header of its messages", ARGUMENTS, "JSON object", 2,
        option="--header", sparse=True,
    ),
    JobField("queue", _RUN["queue"], "Queue", "Queue", PLACE),
    JobField("priority", _RUN["priority"], "Priority", "0 (first) to 9 (last)", PLACE, "0 first, 9 last"),
    JobField("schedule", SCHEDULE, "Schedule", "When it runs"),
    JobField("start_at", Time(), "Not before", "No run before this time", NOTES, "RFC 3339", option="--start"),
    JobField("end_at", Time(), "Not from", "No run from this time on", NOTES, "RFC 3339", option="--end"),
    JobField("jitter", Span(0, DAY), "Jitter", "Delay each run by up to this much", PLACE, "up to, e.g. 30s"),
    JobField(
        "misfire", MISFIRE, "Late runs", "The policy for occurrences that could not be dispatched in time", TROUBLE,
        inner=_inner(
            MISFIRE,
            ("policy", "Late runs", "Late runs", "--misfire"),
            ("grace", "Late after", "A run later than this is late", "--grace"),
            ("max_catch_up", "Catch up at most", "Maximum of late runs that fire_all dispatches", "--max-catch-up"),
        ),
    ),
    JobField("overlap", OVERLAP, "If the previous run is not over", "If the previous run is not over", PLACE),
    JobField(
        "retry", RETRY, "Retries", "How often, and after which pauses, a failed attempt is retried", TROUBLE,
        inner=_inner(
            RETRY,
            ("max_attempts", "Attempts in all", "Number of attempts of a run", "--attempts"),
            ("initial", "First pause", "Pause after the first attempt", "--retry-initial"),
            ("factor", "Factor", "Factor from one pause to the next", "--retry-factor"),
            ("max", "Longest pause", "The longest pause", "--retry-max"),
            ("jitter", "Random variation of each pause", "Vary each pause at random", "--retry-jitter"),
        ),
    ),
    JobField("timeout", _RUN["timeout"], "Timeout", "Time limit of an attempt", PLACE, "e.g. 10m"),
    JobField(
        "start_within", _RUN["start_within"], "Start within",
        "A run not started this long after its due time ends missed", PLACE, "e.g. 1h; then it is missed", sparse=True,
    ),
    JobField(
        "must_end_within", _RUN["must_end_within"], "Must end within",
        "A run that is not over this long after its due time has missed its SLA", PLACE, "e.g. 2h; its SLA",
        sparse=True,
    ),
    JobField(
        "limits", JOB_LIMITS, "Limits", "A limit that its runs count for, of a key where the limit has keys", PLACE,
        'JSON list: "api", {"name": "tenant", "key": {"from": "kwargs.tenant"}}', 2, option="--limit", sparse=True,
    ),
    JobField(
        "fair_key", Key(of_job=True), "Fair key", "Its runs wait in one lane with those of the same key", PLACE,
        'a text, or {"from": "kwargs.tenant"}', sparse=True,
    ),
    JobField(
        "calendars", CALENDARS, "Calendars", "Named calendars that leave out or move its occurrences", NOTES,
        'JSON: {"exclude": ["holidays"], "when_excluded": "next_day"}', 2, sparse=True,
    ),
    JobField(
        "ping", PINGS, "Ping", "An address that hears of its starts, successes and failures", TROUBLE,
        'JSON: {"url": "https://hc-ping.com/...", "on": ["start", "success", "failure"], "style": "healthchecks"}', 2,
        sparse=True,
    ),
    JobField(
        "keep_logs", Choice(KeepLogs), "Keep logs", "Which attempts' logs are kept", NOTES,
        sparse=True,
    ),
    JobField("tags", Tags(), "Tags", "Short texts to find it by", NOTES, "with commas between", option="--tag"),
    JobField("description", TEXT, "Description", "Free text", NOTES, lines=3),
)  # fmt: skip
JOB_TYPES: Final = {field.name: field.type for field in JOB_FIELDS}
GROUPS: Final = {field.name: field.inner for field in JOB_FIELDS if field.inner}


def leaves(field: JobField) -> Iterator[tuple[str, JobField]]:
    """Return the fields that hold a value, by their paths: of a group its inner ones, such as `retry.factor`."""
    if not field.inner:
        yield field.name, field
    for inner in field.inner:
        yield f"{field.name}.{inner.name}", inner
