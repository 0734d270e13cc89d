"""What partitions share in Redis and what each has for itself, as a leader of one term and a worker see it."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.identity import split_task_id, task_id
from itinerary.protocol.instants import Duration
from itinerary.protocol.wire import entry
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.broker import InboxBatch, QueueHead
from tests.support.fakes_redis import FakeInbox
from tests.support.partitions import Partition
from tests.support.simulated_broker import SimClaims, SimDispatcher

if TYPE_CHECKING:
    from tests.support.partition_simulation import PartitionSimulation

_PARTITION, _MOVES = "partition", "moves"
_APART: Final = "|"


class TermInbox:
    """The inbox of a partition, for one of its leaders: reports of runs that others own are forwarded."""

    def __init__(self, simulation: "PartitionSimulation", partition: Partition) -> None:
        self._simulation, self._partition = simulation, partition

    def read(self, position: str, count: int, block: Duration) -> InboxBatch:
        batch = self._partition.inbox.read(position, count, block)
        if not self._simulation.owners.design.forwards_reports:
            return batch
        kept = []
        for entry_id, fields in batch.entries:
            owner = self._simulation.owner_of_report(fields)
            if owner in (None, self._partition.number):
                kept.append((entry_id, fields))
            else:
                # If we die here, the next leader forwards it again: reports may come twice.
                self._simulation.owners.partitions[owner or 0].inbox.append(fields)
        return InboxBatch(tuple(kept), batch.position, batch.at_end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition.inbox, name)


class Inboxes:
    """All inboxes, as the faults of a simulation meet them."""

    def __init__(self, simulation: "PartitionSimulation") -> None:
        self._simulation = simulation
        self._away = False

    @property
    def away(self) -> bool:
        return self._away

    @away.setter
    def away(self, away: bool) -> None:
        self._away = away
        for partition in self._simulation.owners.partitions:
            partition.inbox.away = away

    def add(self, number: int) -> Partition:
        """A new partition, with nothing in Redis yet."""
        partition = Partition(number, FakeInbox(), life=self._simulation.fresh())
        partition.inbox.away = self._away
        return partition

    def wipe(self) -> None:
        """The claims go with it: `Claims.wipe` forgets both."""


class Claims(SimClaims):
    """Claims, cancel flags and results are of all partitions; a worker names the one that its message came from."""

    def ask(self, attempt: str, token: str, queue: str = "default", seq: int | None = None) -> str:
        number, moves, name = queue.split(_APART)
        partition = self._simulation.owners.partitions[int(number)]
        verdict = TermClaims(self._simulation, partition, int(moves)).ask(attempt, token, name, seq)
        if verdict == "stale" and (seq or 0) < (self._recalled(attempt) or 0):
            self._simulation.refused(attempt, seq)
        return verdict

    @property
    def server(self) -> str:
        return self._server

    @property
    def left(self) -> dict[str, Mapping[str, str]]:
        return self._results

    def query_epoch(self) -> ServerEpoch:
        """The epochs of all partitions as one: a worker reports again when any of them changes."""
        self._must_answer()
        partitions = self._simulation.owners.partitions
        names = [f"{self._server}:{one.life}:{one.seen_moves}" for one in partitions]
        return ServerEpoch(_APART.join(names), accepted=True, watermark=0)

    def wipe(self) -> None:
        super().wipe()
        for partition in self._simulation.owners.partitions:
            partition.forget(self._simulation.fresh(), broker=False)


class TermClaims(SimClaims):
    """Claims as one term of a partition uses them: `moves` is how many slices the partition had been given by then."""

    def __init__(self, simulation: "PartitionSimulation", partition: Partition, moves: int) -> None:
        super().__init__(simulation)
        self._partition, self._moves, shared = partition, moves, simulation.claims
        self._shared = shared
        self.holders, self.flagged, self._results = shared.holders, shared.flagged, shared.left
        self.recalled, self.taken = shared.recalled, shared.taken

    def query_epoch(self) -> ServerEpoch:
        self._must_answer()
        one, server = self._partition, self._shared.server
        one.seen_moves = max(one.seen_moves, self._moves)
        accepted, watermark, moves = one.accepted
        return ServerEpoch(f"{server}:{one.life}:{self._moves}", accepted == server and moves >= self._moves, watermark)

    def accept(self, name: str, watermark: int) -> bool:
        if self.query_epoch().name != name:
            return False
        server, before, moves = self._partition.accepted
        moves = max(moves, self._moves) if server == self._shared.server else self._moves
        self._partition.accepted = (self._shared.server, max(watermark, before), moves)
        return True

    def raise_watermarks(self, watermarks: Mapping[str, int], lowest: int) -> dict[str, int]:
        self._must_answer()
        for partition in self._of_these_watermarks():
            self._see_passed(partition, watermarks, lowest)
            server, before, moves = partition.accepted
            if server == self._shared.server:
                partition.accepted = (server, max(lowest, before), moves)
            for queue, watermark in watermarks.items():
                partition.watermarks[queue] = max(watermark, partition.watermarks.get(queue, 0))
        return {queue: self.watermark_of(queue) for queue in watermarks}

    def watermark_of(self, queue: str) -> int:
        server, watermark, _ = self._partition.accepted
        return max(self._partition.watermarks.get(queue, 0), watermark if server == self._shared.server else 0)

    def forget(self, task_ids: Sequence[str]) -> None:
        owners = self._simulation.owners
        self.forget_results(task_ids)
        super().forget([one for one in task_ids if one not in owners.moved or not owners.design.keeps_claims])

    def _of_these_watermarks(self) -> Sequence[Partition]:
        owners = self._simulation.owners
        return [self._partition] if owners.design.own_watermarks else owners.partitions

    def _see_passed(self, partition: Partition, watermarks: Mapping[str, int], lowest: int) -> None:
        """Whether a low watermark passes a message that its run waits for, and that no worker has started."""
        simulation, rows = self._simulation, self._simulation.store.tables.runs
        for sent in simulation.dispatcher.published:
            row, attempt = rows.get(sent.run_id), task_id(sent.run_id, sent.attempt)
            is_waited_for = row is not None and row.state is RunState.PENDING and row.attempt == sent.attempt
            has_started = (sent.run_id, sent.attempt) in simulation.log or attempt in self.holders
            # A leader that is gone may pass a message whose slice came back. A cancelled run ends without its message.
            if (
                row is None
                or row.cancel_requested_at is not None
                or not is_waited_for
                or has_started
                or attempt in self.taken
            ):
                continue
            is_its_own = partition_of(sent) == partition.number == simulation.owners.owner(row)
            is_recalled = sent.seq <= self.recalled.get(attempt, 0)
            if is_its_own and not is_recalled and sent.seq < max(lowest, watermarks.get(sent.queue, 0)):
                simulation.note(f"PASSED {attempt}: its message {sent.seq}, by {watermarks} and {lowest}")
                simulation.passed.append(attempt)

    def _must_answer(self) -> None:
        if self._simulation.claims.away:
            raise BrokerUnavailable("the claims are away")


class Dispatcher(SimDispatcher):
    """The queues, which all partitions share, as workers meet them."""

    def pop_next(self) -> DispatchedRun | None:
        run = super().pop_next()
        if run is None or run.headers is None:
            return None
        self._simulation.came_from[task_id(run.run_id, run.attempt)] = partition_of(run)
        self._simulation.deliver_again(run)
        return run._replace(queue=_APART.join([str(run.headers[_PARTITION]), str(run.headers[_MOVES]), run.queue]))

    @property
    def queues(self) -> Any:
        return self._queues

    def wipe(self) -> None:
        super().wipe()
        for partition in self._simulation.owners.partitions:
            partition.broker_accepted = ("", 0)


class TermDispatcher(SimDispatcher):
    """The queues as one term of a partition uses them: its messages bear its number, and it sees only those."""

    def __init__(self, simulation: "PartitionSimulation", partition: Partition, moves: int) -> None:
        super().__init__(simulation)
        self._partition, self._moves, self._shared = partition, moves, simulation.dispatcher
        self._queues, self.published, self.revoked = self._shared.queues, self._shared.published, self._shared.revoked

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        headers = {_PARTITION: self._partition.number, _MOVES: self._moves}
        super().publish([run._replace(headers=headers) for run in runs])

    def heads(self, queues: Sequence[str]) -> dict[str, QueueHead]:
        self._must_answer()
        heads = {}
        for queue in queues:
            own = [
                run for run in self._queues[queue] if run is not None and partition_of(run) == self._partition.number
            ]
            heads[queue] = QueueHead(len(own), own[0].seq if own else None, none_of_ours=not own)
        return heads

    def query_epoch(self) -> ServerEpoch | None:
        self._must_answer()
        server, watermark = self._partition.broker_accepted
        return ServerEpoch(self._shared.server, server == self._shared.server, watermark)

    def accept(self, name: str, watermark: int) -> None:
        self._must_answer()
        self._partition.broker_accepted = (name, max(watermark, self._partition.broker_accepted[1]))

    def _must_answer(self) -> None:
        if self._shared.away:
            raise BrokerUnavailable("the broker is away")


def partition_of(run: DispatchedRun) -> int:
    """The partition that sent this message."""
    return int((run.headers or {})[_PARTITION])


def heartbeat_for(fields: Mapping[str, str], number: int) -> dict[str, str]:
    """A worker's heartbeat as the inbox of this partition gets it: with the epoch of that partition."""
    body = json.loads(fields["body"])
    names = (body.get("generation") or "").split(_APART)
    body["generation"] = names[number] if number < len(names) else None
    return {**fields, "body": entry("heartbeat", 0, body)["body"]}


def run_of(fields: Mapping[str, str]) -> str | None:
    """The run that a report is about."""
    attempt = json.loads(fields["body"]).get("task_id")
    return split_task_id(attempt)[0] if attempt else None
