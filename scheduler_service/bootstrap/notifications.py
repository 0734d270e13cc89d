"""Builds the parts that notify, from the settings; builds nothing if there is no target."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from prometheus_client import CollectorRegistry
from uuid_utils.compat import uuid7

from scheduler_service.config.notify import read_smtp_url, signing_key
from scheduler_service.config.settings import Settings
from scheduler_service.loops.delivery_worker import DeliveryWorker
from scheduler_service.loops.notifier import AbsenceMonitor, LeadersNotifier, Notifying, Rules
from scheduler_service.metrics.notices import NoticeMetrics
from scheduler_service.notify.apprise_target import AppriseTarget
from scheduler_service.notify.mail import Mail
from scheduler_service.notify.webhook import Webhook
from scheduler_service.ports.notices import NoticeMeter, Target
from scheduler_service.sql.conditions import SqlConditions
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.outbox import SqlOutbox

ABSENT_AFTER_TTLS: Final = 6
"""Report an absence after this many lease_ttl without a leader: a takeover would have happened long before."""
_STOP_SECONDS: Final = 2.0


def targets_of(settings: Settings) -> list[Target]:
    """Return the targets."""
    key = b"" if settings.notify_secret is None else signing_key(settings.notify_secret)
    targets: list[Target] = [
        Webhook(url, key, private=settings.notify_allow_private, clock=host_now) for url in settings.notify_webhooks
    ]
    if settings.smtp_url is not None:
        to = settings.notify_email_to
        targets.append(Mail(read_smtp_url(settings.smtp_url), settings.notify_email_from or to[0], to))
    targets += [AppriseTarget(each.name, url, each.route) for each in settings.notify_channels for url in each.urls]
    return targets


@contextmanager
def leader_notifies(settings: Settings, database: Database, holder: str, meter: NoticeMeter) -> Iterator[None]:
    """Notify of problems while `holder` leads, within the block."""
    if not settings.notify_topics:
        yield
        return
    beside = database.beside()
    delivery_worker = _delivery_worker(settings, beside, meter)
    conditions = SqlConditions(beside)
    with _running(LeadersNotifier(SqlLeaseStore(database), delivery_worker, _rules(settings), conditions, holder)):
        yield


@contextmanager
def api_watches(settings: Settings) -> Iterator[None]:
    """Notify if nobody leads, within the block."""
    if not settings.notify_topics:
        yield
        return
    with closing(Database(settings.database_url, pool_size=1)) as database:
        delivery_worker = _delivery_worker(settings, database, NoticeMetrics(CollectorRegistry()))
        with _running(AbsenceMonitor(SqlLeaseStore(database), delivery_worker, _rules(settings))):
            yield


@contextmanager
def _running(thread: Notifying) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        thread.stop(_STOP_SECONDS)


def _delivery_worker(settings: Settings, database: Database, meter: NoticeMeter) -> DeliveryWorker:
    return DeliveryWorker(SqlOutbox(database), targets_of(settings), meter, settings.notify_quiet, lambda: str(uuid7()))


def _rules(settings: Settings) -> Rules:
    return Rules(
        settings.notify_topics,
        settings.notify_late_after,
        settings.notify_long_after,
        ABSENT_AFTER_TTLS * settings.lease_ttl,
    )
