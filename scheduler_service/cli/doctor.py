"""`itinerary doctor`: checks everything that a run needs and says what to do. One line a check; changes nothing."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from redis import ResponseError

from itinerary import version as small
from itinerary.ownership import ownership_error
from itinerary.protocol.instants import DAY, HOUR, SECOND, format_duration
from itinerary.protocol.wire import PROTOCOL, PROTOCOL_FIELD, WITHOUT_INFO, protocol_error
from scheduler_service.api.context import system_clock
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.notifications import targets_of
from scheduler_service.bootstrap.parts import check_redis, marks_of, open_dispatcher
from scheduler_service.broker.client import connect, redis_errors
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.cli.beside_up import app_of_up, as_up_runs_it
from scheduler_service.cli.calendar_checks import check_calendars
from scheduler_service.cli.findings import Finding, NotKnown, NotWell, found
from scheduler_service.cli.job_checks import check_jobs
from scheduler_service.cli.monitor_checks import check_monitors
from scheduler_service.cli.output import print_json
from scheduler_service.cli.queue_checks import check_queues
from scheduler_service.cli.redis_rights import check_rights
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.pruning import Past, horizon
from scheduler_service.core.explain.relative import relative
from scheduler_service.core.redis_marks import SAME_REDIS, Marks, differing
from scheduler_service.core.schedules.zone_rules import difference, installed_rules
from scheduler_service.core.worker_command import worker_command
from scheduler_service.observability.logs import escaped
from scheduler_service.runtime.addresses import shown_url
from scheduler_service.sql.database import Bounds, Database, host_now
from scheduler_service.sql.database_url import read_url
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.outbox import SqlOutbox
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.schema_version import check_schema
from scheduler_service.sql.zone_rules import SqlZoneRulesStore
from scheduler_service.version import VERSION

_MARKED_WITHIN: Final = 3.0
_MARKED_EVERY: Final = 0.5
_OLDEST_REDIS: Final = (6, 2)
_MOST_COUNTED: Final = 10_000
_ANSWERED_WITHIN: Final = 10 * SECOND  # a page does not wait so long; a verdict may, for a leader that lacks a core


def examine(settings: Settings, *, as_json: bool = False) -> int:
    """Print every finding; return 0 if all is well, else 1."""
    settings = as_up_runs_it(settings, last=True)
    findings = list(_findings(settings))
    if as_json:
        print_json({"items": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            print(escaped(finding.line))
    failed = [finding.name for finding in findings if finding.well is False]
    if failed:
        print(f"itinerary: to fix: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _findings(settings: Settings) -> Iterator[Finding]:
    """Yield each check after those that it depends on."""
    checked = partial(partial, _checked, settings)
    yield Finding("settings", True, "accepted")
    yield found("package", _package, "then restart everything")
    database = found("database", lambda: _database(settings), "check that it is running, then run `itinerary migrate`")
    remedy = "start it, or set ITINERARY_REDIS_URL; for `itinerary up` set ITINERARY_DATA_DIR to its --data-dir"
    redis = found("redis", lambda: _redis(settings), remedy)
    broker = list(_of_broker(settings))
    same = found("same redis", lambda: _same_redis(settings), SAME_REDIS, database, redis, *broker)
    before = (database, redis, same) if same.well is False else (database, redis)
    leader = found("leader", lambda: _leader(settings), "start one with `itinerary leader`", *before)
    app = app_of_up(settings.data_dir)
    no_worker = f"start one with `{worker_command(app=app)}`, or the workers use another Redis: give them the leader's"
    workers = found("workers", lambda: _workers(settings), no_worker, leader)
    yield database
    yield found("history", lambda: history(settings), "its leader's log says why it is not pruned", database)
    yield found("jobs", checked(check_jobs), "use the release that created them, or replace them", database)
    yield found("calendars", checked(check_calendars), "repair the file, or save the calendar again", database)
    yield found("monitors", checked(check_monitors), "see `itinerary monitors show ID`", database)
    yield redis
    yield found("rights", lambda: check_rights(settings), "grant it to the user, see Security in the manual", redis)
    yield found("redis data", lambda: _redis_keeps(settings), "change it in the configuration of Redis", redis)
    yield from broker
    yield same
    yield leader
    yield found(
        "zone rules",
        lambda: _zone_rules(settings),
        "install one version of tzdata on every host, and restart; `itinerary zones diff` lists what changes",
        database,
    )
    yield workers
    yield found("protocol", lambda: _protocol(settings), "see Upgrading in the manual", workers)
    yield found("queues", lambda: _queues(settings), f"start one with `{worker_command('NAME', app=app)}`", workers)
    yield found("notices", lambda: _notices(settings), "fix it, then run `itinerary notify retry`", database)


def _package() -> str:
    error = ownership_error()
    if error:
        raise NotWell(error)
    if small.VERSION != VERSION:
        raise NotWell(f"itinerary-server {VERSION} needs celery-itinerary {VERSION}; {small.VERSION} is installed")
    return f"itinerary-server {VERSION}, celery-itinerary {small.VERSION}"


@contextmanager
def opened(settings: Settings, bounds: Bounds = Bounds()) -> Iterator[Database]:  # noqa: B008
    """Open the database, if it exists; a check never creates it."""
    file = read_url(settings.database_url).database
    if settings.database_url.startswith("sqlite") and not Path(file or "").exists():
        raise NotWell(f"there is no file {file}")
    with closing(Database(settings.database_url, pool_size=1, bounds=bounds)) as database:
        yield database


def _database(settings: Settings) -> str:
    with opened(settings) as database:
        check_schema(database)
    return f"{shown_url(settings.database_url)}, schema up to date"


def _checked(settings: Settings, check: Callable[[Database], str]) -> str:
    with opened(settings) as database:
        check_schema(database)
        return check(database)


def history(settings: Settings) -> str:
    """Report how much history is past its retention."""
    kept = f"finished runs are kept for {format_duration(settings.retention)}"
    with opened(settings) as database:
        check_schema(database)
        store = SqlPruning(database)
        needs, swept = store.needs(), store.last_sweep()
        before = horizon(needs, host_now(), settings.retention)
        too_old = 0 if before is None else store.count(Past.RUNS, before, _MOST_COUNTED)
    last = "none ended so far" if swept.ended_at is None else f"the last ended {relative(swept.ended_at, needs.now)}"
    text = f"{kept}; {too_old:,}{'+' if too_old == _MOST_COUNTED else ''} are older; sweeps: {last}"
    is_behind = before is not None and (swept.pruned_until or 0) < before - DAY
    if is_behind and too_old == _MOST_COUNTED and (swept.ended_at or 0) < needs.now - HOUR:
        raise NotWell(text)
    return text


def _redis(settings: Settings) -> str:
    check_redis(settings)
    names = _ask_redis(settings, "server")
    if not names:
        return f"{shown_url(settings.redis_url)}, whose version is not known: it does not answer INFO"
    version = str(names.get("redis_version", "0"))
    own = f"{names['server_name']} {names['valkey_version']}, as Redis " if names.get("valkey_version") else "version "
    where = f"{shown_url(settings.redis_url)}, {own}{version}"
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST_REDIS:
        raise NotWell(f"{where} is too old: 6.2 or later is needed")
    return where


def _redis_keeps(settings: Settings) -> str:
    answers = {**_ask_redis(settings, "memory"), **_ask_redis(settings, "persistence")}
    if not answers:
        raise NotKnown(WITHOUT_INFO)
    policy = answers.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise NotWell(f"maxmemory-policy is {policy}: under pressure Redis would drop messages; set noeviction")
    if not answers.get("aof_enabled", 1):
        raise NotWell("appendonly is no: a restart of Redis would lose messages; set appendonly yes")
    return "noeviction, appendonly"


def _of_broker(settings: Settings) -> Iterator[Finding]:
    """Check the broker, unless it is the Redis already checked."""
    if settings.broker_url != settings.redis_url:
        yield found("broker", lambda: _broker(settings), "start it, or set ITINERARY_BROKER_URL")


def _broker(settings: Settings) -> str:
    with closing(open_dispatcher(settings)) as dispatcher:
        dispatcher.ping()
    return f"{shown_url(settings.broker_url)} answers"


def _ask_redis(settings: Settings, section: str) -> dict[str, Any]:
    """Return the section of INFO; nothing if INFO is refused."""
    with connect(settings.redis_url, answer_timeout=2) as client, redis_errors():
        client.ping()
        try:
            answer: dict[str, Any] = client.info(section)
        except ResponseError:
            return {}
    return answer


def _leader(settings: Settings) -> str:
    with opened(settings) as database:
        leases = SqlLeaseStore(database)
        asked = leases.peek(0)
        answered = _statistics(settings)["term"] if asked is not None and asked.live else None  # it must answer as well
        lease = leases.peek(0)  # the answer took up to a second
    if lease is None or not lease.live:
        raise NotWell("nobody leads")
    if answered != lease.term:
        raise NotWell(f"{lease.holder} leads with term {lease.term}, but another answered")
    return f"{lease.holder} leads with term {lease.term}, and answers"


def _same_redis(settings: Settings) -> str:
    deadline = time.monotonic() + _MARKED_WITHIN  # after a loss of data the leader writes the marks again
    with opened(settings) as database, closing(marks_of(settings)) as marks:
        leases = SqlLeaseStore(database)
        while True:
            lease = leases.peek(0)
            if lease is None or not lease.live or lease.marks == Marks():
                return "not compared: no leader has recorded which Redis it uses"
            other = differing(lease.marks, marks.read())
            if other is None:
                return "Redis and broker are the leader's"
            if time.monotonic() >= deadline:
                raise NotWell(f"the leader uses {other} than this command")
            time.sleep(_MARKED_EVERY)


def _zone_rules(settings: Settings) -> str:
    own = installed_rules()
    with opened(settings) as database:
        lease, adopted = SqlLeaseStore(database).peek(0), SqlZoneRulesStore(database).adopted()
    leads = lease if lease is not None and lease.live else None
    in_force = adopted[-1].version if adopted else None if leads is None else leads.zone_rules
    if in_force is None:
        return own.text
    if (differs := difference(in_force)) is not None:
        raise NotWell(f"those of this host are {differs}")
    if leads is not None and leads.standby_zone_rules is not None:
        raise NotWell(f"the leader plans by {leads.zone_rules}, a standby has {leads.standby_zone_rules}")
    return f"{own.text}, as the leader plans by"


def _workers(settings: Settings) -> str:
    alive = [str(worker["name"]) for worker in _statistics(settings)["workers"] if worker["alive"]]
    if not alive:
        raise NotWell("no worker reports to the leader; start one, with the leader's ITINERARY_REDIS_URL")
    return f"{len(alive)} seen: {', '.join(alive[:5])}"


def _protocol(settings: Settings) -> str:
    for worker in _statistics(settings)["workers"]:
        error = protocol_error(worker.get(PROTOCOL_FIELD, 1), PROTOCOL) if worker["alive"] else None
        if error is not None:
            raise NotWell(f"{worker['name']}: {error}")
    return f"every worker speaks protocol {PROTOCOL} or the one before"


def _queues(settings: Settings) -> str:
    with opened(settings) as database:
        return check_queues(database, _statistics(settings))


def _notices(settings: Settings) -> str:
    if not settings.notify_topics:
        return "off: none of ITINERARY_NOTIFY_WEBHOOKS, _CHANNELS and _EMAIL_TO is set"
    with opened(settings) as database:
        backlog = SqlOutbox(database).backlog()
    if backlog.dead:
        raise NotWell(f"{backlog.dead} given up, the last for {backlog.last_dead}")
    names = ", ".join(target.name for target in targets_of(settings))
    failing = f", the last try failed, {backlog.last_failed}" if backlog.last_failed else ""
    return f"{names} told; {backlog.waiting} to be delivered{failing}"


def _statistics(settings: Settings) -> Any:
    with closing(RedisInbox(settings.redis_url, settings.key_prefix)) as inbox:
        return LeaderLine(inbox, system_clock).request("query", {"what": "statistics"}, _ANSWERED_WITHIN)
