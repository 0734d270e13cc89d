"""The balancer's thread: places jobs, plans rebalances and measures the distribution while the loop continues."""

import time
from collections.abc import Callable

from scheduler_service.core.balancing.balancer import Balancer
from scheduler_service.core.balancing.placements import BalancerCommand, PlacesFound, Surveyed
from scheduler_service.loops.command_thread import CommandThread
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.placement_log import log_survey
from scheduler_service.ports.stores import Meter


class BalancerThread:
    """One term's balancer; it receives all jobs when the term begins."""

    def __init__(self, mailbox: Mailbox, meter: Meter, on_crash: Callable[[BaseException], None]) -> None:
        self._balancer = Balancer()
        self._mailbox = mailbox
        self._meter = meter
        self._surveyed = False
        self.thread: CommandThread[BalancerCommand] = CommandThread("balancer", self.carry_out, on_crash)

    def carry_out(self, orders: list[BalancerCommand]) -> None:
        """Execute these commands in order, and report their results."""
        for order in orders:
            began = time.perf_counter()
            found = self._balancer.carry_out(order)
            if isinstance(found, PlacesFound):
                self._meter.placed(len(found.placements), time.perf_counter() - began)
            if isinstance(found, Surveyed) and not self._surveyed:
                self._surveyed = True
                log_survey(found)
            if found is not None:
                self._mailbox.put(found)
