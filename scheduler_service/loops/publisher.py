"""The dispatcher thread: publishes dispatched runs, and nothing else, so that nothing delays a message.

What was commanded during a publish goes in the next one, in one round trip. Treats a failed publish as unknown, never
as "not sent": it waits until the broker answers, then reports the publish as uncertain.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import structlog

from itinerary.protocol.errors import BrokerUnavailable
from scheduler_service.core.leader.commands import Publish
from scheduler_service.core.leader.results import Published, PublishUncertain
from scheduler_service.core.model import DispatchedRun
from scheduler_service.loops.command_thread import CommandThread
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.ports.broker import Dispatcher
from scheduler_service.ports.stores import Meter

log = structlog.get_logger(__name__)

_TOGETHER: Final = 1_000


class Publisher:
    """The executor of Publish, which reports what the broker confirmed."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        meter: Meter,
        renewer: LeaseRenewer,
        mailbox: Mailbox,
        stopping: threading.Event,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._meter = meter
        self._renewer = renewer
        self._mailbox = mailbox
        self._stopping = stopping
        # Queues of which a publish failed: one of them may be refused, and must not take the others with it again.
        self._suspects: set[str] = set()
        self.thread: CommandThread[Publish] = CommandThread(
            "dispatcher", self.carry_out, on_crash, on_start=self._connect
        )

    def carry_out(self, commands: Sequence[Publish]) -> None:
        """Publish in order; return when each outcome is confirmed or known to be unknown."""
        for runs in self._together(commands):
            self._renewer.check()
            self._publish(runs)

    def _connect(self) -> None:
        """Open the connection, so that the first publish of a new leader need not; without a broker, that one tries."""
        with suppress(BrokerUnavailable):
            self._dispatcher.ping()

    def _together(self, commands: Sequence[Publish]) -> Iterator[tuple[DispatchedRun, ...]]:
        """Yield the runs of several commands at once, those of suspect queues by command."""
        runs: tuple[DispatchedRun, ...] = ()
        for command in commands:
            is_alone = any(run.queue in self._suspects for run in command.runs)
            if runs and (is_alone or len(runs) + len(command.runs) > _TOGETHER):
                yield runs
                runs = ()
            runs += command.runs
            if is_alone:
                yield runs
                runs = ()
        if runs:
            yield runs

    def _publish(self, runs: tuple[DispatchedRun, ...]) -> None:
        queues = {run.queue for run in runs}
        try:
            self._dispatcher.publish(runs)
        except BrokerUnavailable as exc:
            log.warning("publish outcome unknown", count=len(runs), error=str(exc))
            self._suspects |= queues
            self._await_broker()
            self._mailbox.put(PublishUncertain(runs))
            return
        self._suspects -= queues
        at = self._renewer.now()
        self._meter.published(runs, at)
        self._mailbox.put(Published(runs, at))

    def _await_broker(self) -> None:
        delay = 0.1
        while self._renewer.trusted() and not self._stopping.is_set():
            try:
                return self._dispatcher.ping()
            except BrokerUnavailable as exc:
                log.warning("broker away", error=str(exc), next_try_s=delay)
            self._stopping.wait(delay)
            delay = min(delay * 2, 2.0)
        return None
