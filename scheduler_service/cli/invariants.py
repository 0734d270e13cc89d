"""`itinerary doctor --invariants`: checks the whole history against the rules that must always hold. Changes nothing.

The workers' own record, if there is one, is a file of JSON lines, written by the tasks themselves:

    {"event": "start" or "end", "task_id": "<run id>~<attempt>", "at": seconds since 1970}
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from itinerary.protocol.errors import BadValue, MalformedEntry
from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.cli.doctor import opened
from scheduler_service.config.settings import Settings
from scheduler_service.core.invariants.check import violations
from scheduler_service.core.invariants.history import Execution, ExecutionLog, Finding, Tolerance
from scheduler_service.loops.zone_watch import put_adopted_in_force
from scheduler_service.observability.logs import escaped
from scheduler_service.sql.database import Database
from scheduler_service.sql.history import HISTORY_BOUNDS, read_history
from scheduler_service.sql.schema_version import check_schema
from scheduler_service.sql.zone_rules import SqlZoneRulesStore


def judge(settings: Settings, record: Path | None, since: Instant | None, *, as_json: bool = False) -> int:
    """Print every violation, a line each, as text or JSON; return 0 if there is none, else 1."""
    log = None if record is None else read_record(record)
    found = 0
    with opened(settings, HISTORY_BOUNDS) as database:
        check_schema(database)
        put_adopted_in_force(SqlZoneRulesStore(database))
        for finding in findings(database, log, since):
            found += 1
            if as_json:
                print(json.dumps({"rule": finding.rule, "subject": finding.subject, "words": finding.message}))
            else:
                print(escaped(f"{finding.rule:13}  {finding.subject}  {finding.message}"))
    if found:
        print(f"itinerary: {found} violations", file=sys.stderr)
    elif not as_json:
        print("ok    invariants  every occurrence and every attempt is accounted for")
    return 1 if found else 0


def findings(
    database: Database,
    log: ExecutionLog | None = None,
    since: Instant | None = None,
    tolerance: Tolerance = Tolerance(),  # noqa: B008
) -> Iterator[Finding]:
    """Yield every violation in the database, and in the workers' record of it."""
    with read_history(database, since) as history:
        yield from violations(history, log, tolerance)


def read_record(path: Path) -> ExecutionLog:
    """Read the workers' record; BadValue for an invalid line. A last line that a crash cut is left out."""
    log: ExecutionLog = {}
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as exc:
        raise BadValue("--log", str(path), f"give a readable file ({exc.strerror})") from exc
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            _note(log, line, f"line {number} of {path}")
    return log


def _note(log: ExecutionLog, line: bytes, place: str) -> None:
    try:
        fact = json.loads(line)
        execution = log.setdefault(split_task_id(fact["task_id"]), Execution())
        if fact["event"] == "start":
            execution.starts.append(int(float(fact["at"]) * SECOND))
        elif fact["event"] == "end":
            execution.ends += 1
        else:
            raise ValueError(fact["event"])
    except (ValueError, TypeError, KeyError, MalformedEntry) as exc:
        raise BadValue("--log", place, 'give lines like {"event": "start", "task_id": "x~1", "at": 1.5}') from exc
