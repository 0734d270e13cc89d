"""Builds the parts of a process from its settings and passes them on; decides nothing."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType

import structlog
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import StoreRefused, StoreUnavailable
from itinerary.protocol.redaction import use_keys
from itinerary.telemetry import tracing
from scheduler_service.bootstrap.calendars import calendars_refreshed
from scheduler_service.bootstrap.core_settings import core_settings
from scheduler_service.bootstrap.logs import logs_recorded
from scheduler_service.bootstrap.notifications import leader_notifies
from scheduler_service.bootstrap.pings import pings_sent
from scheduler_service.bootstrap.sla import slas_judged
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.client import refuse_cluster
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.broker.logs import RedisLiveLogs
from scheduler_service.broker.marks import RedisMarks, reads_marks
from scheduler_service.broker.queue_heads import RedisQueues
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.job_plan import JobSets
from scheduler_service.loops.election import Leader
from scheduler_service.loops.pruner import Retention
from scheduler_service.loops.sampler import Sampling
from scheduler_service.loops.scheduler_loop import Adapters
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.observability.leader_port import leader_port
from scheduler_service.ports.broker import DataMarks, Dispatcher, Inbox, Queues
from scheduler_service.ports.bulk import BulkStore
from scheduler_service.ports.calendar_feeds import FeedStore
from scheduler_service.ports.calendars import CalendarStore
from scheduler_service.ports.freezes import FreezeStore
from scheduler_service.ports.history import HistoryStore
from scheduler_service.ports.leases import LeaseStore
from scheduler_service.ports.limits import LimitStore
from scheduler_service.ports.logs import LiveLogs, LogStore
from scheduler_service.ports.monitors import MonitorStore
from scheduler_service.ports.notices import Outbox
from scheduler_service.ports.queues import QueueStore
from scheduler_service.ports.records import AuditLog, Evidence, Wakeups
from scheduler_service.ports.samples import SampleStore
from scheduler_service.ports.saved_views import SavedViewStore
from scheduler_service.ports.sessions import SessionStore
from scheduler_service.ports.share_links import ShareLinkStore
from scheduler_service.ports.sign_ins import SignInStore
from scheduler_service.ports.stores import JobStore, RunStore
from scheduler_service.ports.timeline import TimelineStore
from scheduler_service.ports.zone_rules import ZoneRulesStore
from scheduler_service.runtime.stopping import from_signals
from scheduler_service.sql.attempt_logs import SqlLogStore
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.bulk import SqlBulkStore
from scheduler_service.sql.calendar_feeds import SqlFeedStore
from scheduler_service.sql.calendars import SqlCalendarStore
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.evidence import SqlEvidence
from scheduler_service.sql.freezes import SqlFreezeStore
from scheduler_service.sql.job_sets import SqlJobSets
from scheduler_service.sql.jobs import SqlJobStore
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.limits import SqlLimitStore
from scheduler_service.sql.monitors import SqlMonitorStore
from scheduler_service.sql.outbox import SqlOutbox
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.queues import SqlQueueStore
from scheduler_service.sql.run_pages import SqlHistoryStore
from scheduler_service.sql.runs import SqlRunStore
from scheduler_service.sql.samples import SqlSampleStore
from scheduler_service.sql.saved_views import SqlSavedViewStore
from scheduler_service.sql.schema_version import check_schema
from scheduler_service.sql.sessions import SqlSessionStore
from scheduler_service.sql.share_links import SqlShareLinkStore
from scheduler_service.sql.sign_ins import SqlSignInStore
from scheduler_service.sql.timeline import SqlTimelineStore
from scheduler_service.sql.wakeups import PgWakeups
from scheduler_service.sql.zone_rules import SqlZoneRulesStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of every process but the leader."""

    jobs: JobStore
    runs: RunStore
    leases: LeaseStore
    inbox: Inbox
    job_sets: JobSets
    audit: AuditLog
    evidence: Evidence
    history: HistoryStore
    outbox: Outbox
    queues: Queues
    marks: DataMarks
    queue_store: QueueStore
    limit_store: LimitStore
    freeze_store: FreezeStore
    zone_rules: ZoneRulesStore
    calendar_store: CalendarStore
    feed_store: FeedStore
    monitor_store: MonitorStore
    sessions: SessionStore
    samples: SampleStore
    sign_ins: SignInStore
    bulk: BulkStore
    timeline: TimelineStore
    share_links: ShareLinkStore
    logs: LogStore
    live_logs: LiveLogs
    saved_views: SavedViewStore


@contextmanager
def open_stores(settings: Settings, *, connections: int = 5) -> Iterator[Stores]:
    """Open the stores of these settings, closed at the end of the block; `connections` is the database pool's size."""
    database = Database(settings.database_url, pool_size=connections)
    inbox = RedisInbox(settings.redis_url, settings.key_prefix)
    queues = RedisQueues(settings.broker_url, settings.broker_key_prefix)
    marks = marks_of(settings)
    live_logs = RedisLiveLogs(settings.redis_url, settings.key_prefix)
    try:
        yield Stores(
            SqlJobStore(database), SqlRunStore(database), SqlLeaseStore(database), inbox, SqlJobSets(database),
            SqlAuditLog(database), SqlEvidence(database), SqlHistoryStore(database),
            SqlOutbox(database), queues, marks, SqlQueueStore(database),
            SqlLimitStore(database), SqlFreezeStore(database), SqlZoneRulesStore(database), SqlCalendarStore(database),
            SqlFeedStore(database), SqlMonitorStore(database, settings.notify_topics), SqlSessionStore(database),
            SqlSampleStore(database), SqlSignInStore(database), SqlBulkStore(database), SqlTimelineStore(database),
            SqlShareLinkStore(database), SqlLogStore(database), live_logs, SqlSavedViewStore(database),
        )  # fmt: skip
    finally:
        live_logs.close()
        marks.close()
        queues.close()
        inbox.close()
        database.close()


def check_redis(settings: Settings) -> None:
    """Refuse a Redis on which nothing would run; one that is away is not asked."""
    urls = {"redis_url": settings.redis_url}
    if settings.broker_url != settings.redis_url and reads_marks(settings.broker_url):
        urls["broker_url"] = settings.broker_url
    refuse_cluster(**urls)


@contextmanager
def open_leader(settings: Settings) -> Iterator[Leader]:
    """Open a leader over real parts; its identity is new for every process start."""
    check_redis(settings)
    use_keys(settings.redact_keys)
    meter = PrometheusMeter()
    with (
        closing(Database(settings.leader_database_url, pool_size=6, goes_first=True)) as database,
        closing(RedisInbox(settings.redis_url, settings.key_prefix)) as inbox,
        closing(RedisClaims(settings.redis_url, settings.key_prefix)) as claims,
        closing(open_dispatcher(settings)) as dispatcher,
        open_marks(settings) as marks,
    ):
        await_database(database)
        holder, topics = str(uuid7()), settings.notify_topics
        leader = Leader(
            core_settings(settings),
            SqlLeaseStore(database, topics),
            Adapters(
                SqlLeaderStore(database, topics),
                inbox,
                claims,
                _traced(dispatcher),
                meter,
                SqlZoneRulesStore(database),
                wakeups_of(database),
                Retention(SqlPruning(database.beside()), settings.retention, host_now),
                Sampling(meter.samples, SqlSampleStore(database)),
            ),
            marks,
            holder=holder,
            ttl=settings.lease_ttl,
            inbox_buffer=settings.inbox_buffer_size,
        )
        with (
            _own_port(settings, leader, meter),
            leader_notifies(settings, database, holder, meter.notices),
            calendars_refreshed(settings, database, holder, meter.calendars.failing),
            slas_judged(settings, database, holder, meter.sla),
            pings_sent(settings, database, holder, meter.pings),
            logs_recorded(settings, database, holder),
        ):
            yield leader


@contextmanager
def open_marks(settings: Settings) -> Iterator[RedisMarks]:
    """Open the leader's connections for checking Redis and the broker each second; others do its work."""
    with ExitStack() as stack:
        ping = None
        if not reads_marks(settings.broker_url):
            ping = stack.enter_context(closing(open_dispatcher(settings))).ping
        yield stack.enter_context(closing(marks_of(settings, ping)))


def marks_of(settings: Settings, ping_broker: Callable[[], object] | None = None) -> RedisMarks:
    """Return the reader of the marks; it connects at its first use."""
    return RedisMarks(
        settings.redis_url, settings.broker_url, settings.broker_key_prefix, ping_broker, settings.key_prefix
    )


def open_dispatcher(settings: Settings) -> CeleryDispatcher:
    """Return the publisher of runs; it connects at its first use."""
    prefix = settings.broker_key_prefix
    options = {} if prefix is None else {"global_keyprefix": prefix}
    return CeleryDispatcher(publishing_app(settings.broker_url, options), settings.key_prefix)


def await_database(database: Database) -> None:
    """Wait until the database answers; raise if waiting cannot help: access denied, or another schema."""
    delay = 0.5
    while True:
        try:
            database.ping()
        except StoreRefused:
            raise
        except StoreUnavailable as exc:
            log.warning("database away, waiting for it", error=str(exc), next_try_s=delay)
            time.sleep(delay)
            delay = min(delay * 2, 5.0)
        else:
            return check_schema(database)


def _traced(dispatcher: Dispatcher) -> Dispatcher:
    """Return the dispatcher, with a span for each run that it publishes if tracing is on."""
    tracer = tracing.tracer("itinerary-leader")
    if tracer is None:
        return dispatcher
    from scheduler_service.observability.traced import TracedDispatcher

    return TracedDispatcher(dispatcher, tracer)


def _own_port(settings: Settings, leader: Leader, meter: PrometheusMeter) -> AbstractContextManager[object]:
    if settings.metrics_port is None:
        return nullcontext()
    return leader_port(settings.metrics_host, settings.metrics_port, leader.stalled_for, meter.exposition)


def wakeups_of(database: Database) -> Wakeups | None:
    """Return the source that wakes the leader after commits: PostgreSQL's notifications.

    SQLite has none; there every writer notifies through the inbox.
    """
    return PgWakeups(database.url) if database.dialect is Dialect.POSTGRESQL else None


def run_leader(settings: Settings) -> None:
    """Take part in the election until SIGTERM or SIGINT; a second signal ends the process at once, safely too."""
    with open_leader(settings) as leader:
        run_until_signalled(leader)


def run_until_signalled(leader: Leader) -> None:
    """Run it in the main thread; the first signal stops it cleanly, the second has its usual effect.

    SIGUSR1 announces a stop: nothing more is dispatched, while reports of running attempts are still applied.
    """
    with from_signals(leader.pause) as pause, from_signals(leader.stop) as stop:
        signal.signal(signal.SIGUSR1, lambda *_: pause())

        def on_signal(number: int, frame: FrameType | None) -> None:
            signal.signal(number, signal.SIG_DFL)
            stop()

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
        leader.run()
