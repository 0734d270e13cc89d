"""A crontab file, of a user or of the system, as jobs of one task that runs commands. Pure.

Read as Debian's cron reads it: environment lines hold for the lines below. `%` ends the command and begins its
standard input; `\\%` is a percent sign. There is no built-in task that runs a shell: its name is the caller's.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.core.schedules.cron import ALIASES
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.converted import CannotConvert, Converted, checked, job_id_of
from scheduler_service.migrating.their_times import cron_fires

NOTES: Final = (
    "cron starts a command whether or not its last one is over, so overlap is `allow`; `skip` may be what you want",
    "cron forgets what was due while it was down; here the newest missed run of each job is made up for (misfire)",
    "cron mails what a command prints; here the task's result is kept with the run",
)
MOST_BYTES: Final = 1024 * 1024
MOST_LINES: Final = 5_000
_ASSIGNED: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s=]+)\s*=\s*(.*)""")
_TOKEN: Final = re.compile(r"\\.|%|[^\\%]+|\\")
_ZONE: Final = "CRON_TZ"


@dataclass(frozen=True, slots=True)
class _Above:
    """The environment that the lines above set for those below."""

    timezone: str
    environment: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    bad_zone: str | None = None


def read_crontab(
    text: str, *, task: str, timezone: str, now: Instant, system: bool = False, queue: str | None = None
) -> list[Converted]:
    """Every line that cron would run, in order; BadValue for a file that is too large.

    `system`: the command follows the name of a user.
    """
    if text.count("\n") > MOST_LINES:
        raise BadValue("FILE", f"{text.count(chr(10)):,} lines", f"give at most {MOST_LINES:,} lines; split the file")
    above, found = _Above(timezone), []
    taken: set[str] = set()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip(" \t")
        if not line:
            above = replace(above, comment="")
        elif line.startswith("#"):
            above = replace(above, comment=line.lstrip("# \t"))
        elif assigned := _ASSIGNED.fullmatch(line):
            above = _assign(above, _unquoted(assigned[1]), _unquoted(assigned[2]))
        else:
            converted = _entry(line, number, above, task, now, system, queue, taken)
            taken.add(str(converted.body["job_id"]) if converted.body else "")
            found.append(converted)
            above = replace(above, comment="")
    return found


def _assign(above: _Above, name: str, value: str) -> _Above:
    if name == _ZONE:
        try:
            return replace(above, timezone=zone(value).key, bad_zone=None)
        except BadValue as exc:
            return replace(above, bad_zone=str(exc))
    return replace(above, environment={**above.environment, name: value})


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _entry(
    line: str, number: int, above: _Above, task: str, now: Instant, system: bool, queue: str | None, taken: set[str]
) -> Converted:
    name = f"line {number}"
    try:
        expr, user, rest = _split(line, system)
        if above.bad_zone:
            raise CannotConvert(above.bad_zone)
    except CannotConvert as exc:
        return Converted(name, refused=str(exc))
    command, stdin = _command(rest)
    kwargs: dict[str, Any] = {"command": command, "stdin": stdin}
    kwargs |= {"user": user} if user else {}
    kwargs |= {"env": dict(above.environment)} if above.environment else {}
    body = {
        "job_id": job_id_of(command, taken, f"line-{number}"),
        "title": above.comment or command,
        "task": task,
        "kwargs": kwargs,
        "schedule": {"kind": "cron", "expr": expr, "timezone": above.timezone},
        "overlap": "allow",
        **({"queue": queue} if queue else {}),
    }
    return checked(name, body, tuple(_differences(kwargs)), now, cron_fires(expr, above.timezone))[0]


def _split(line: str, system: bool) -> tuple[str, str, str]:
    """The expression, the user (empty in a user's own file), and what cron would hand to the shell."""
    fields = 1 if line.startswith("@") else 5
    parts = line.split(None, fields + system)
    if len(parts) <= fields + system:
        wanted = f"{'a user and ' if system else ''}a command"
        raise CannotConvert(f"{line!r} is not understood: give {fields} field{'s' * (fields > 1)}, then {wanted}")
    expr = " ".join(parts[:fields])
    if expr.lower() == "@reboot":
        raise CannotConvert("@reboot names no time: start that command from the machine's service manager")
    if expr.startswith("@") and expr.lower() not in ALIASES:
        raise CannotConvert(f"{expr} is not known; known are {', '.join(ALIASES)}")
    return expr, parts[fields] if system else "", parts[-1]


def _command(text: str) -> tuple[str, str]:
    """The command, and its standard input: what stands behind the first bare `%`, each further one a line's end."""
    parts = [""]
    for token in _TOKEN.findall(text):
        if token == "%":
            parts.append("")
        else:
            parts[-1] += "%" if token == "\\%" else token
    command, *lines = parts
    if lines and not lines[-1]:
        lines.pop()
    return command.rstrip(), "".join(f"{line}\n" for line in lines)


def _differences(kwargs: Mapping[str, Any]) -> Iterable[str]:
    if "env" in kwargs:
        names = ", ".join(kwargs["env"])
        yield f"cron sets {names} for the command; the task is given them as `env` and has to set them"
    if "user" in kwargs:
        yield f"cron runs the command as {kwargs['user']}; here the worker's user does, the task is told by `user`"
    if kwargs["stdin"]:
        yield "cron feeds the text behind % to the command; the task is given it as `stdin`"
