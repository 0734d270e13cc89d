"""Limits under random orders of edits, answers and reports: never more than allowed, and what may go goes at once."""

import random

import pytest

from itinerary.protocol.instants import MILLISECOND
from scheduler_service.core.leader.limiting import full_limit, has_worker
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.run_state import RunState
from tests.support.gate import Gate, handed_over, limit, waiting

USES = ((), ("a",), ("b",), ("a", "b"), (("k", "x"),), (("k", "y"), "a"))
SEEDS = 40


class Play:
    """One history over a leader; `out` is the truth: what the database may have in flight, by run."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.gate = Gate()
        self.asked: set[str] = set()
        self.running: set[str] = set()
        self.out: set[str] = set()
        self.made = self.handed = 0
        self.edit()
        self.heard(self.gate.beat(queues="qp"))

    def edit(self) -> None:
        some = {name: limit(self.dice.randint(1, 3)) for name in "ab" if self.dice.random() < 0.9}
        keyed = limit(1, overrides={"y": self.dice.randint(1, 2)})
        more = {"of_p": limit(self.dice.randint(1, 4))} if self.dice.random() < 0.5 else {}
        pauses, fair = (["q"] if self.dice.random() < 0.2 else []), (["q"] if self.dice.random() < 0.5 else [])
        self.heard(self.gate.edit(pauses=pauses, fair=fair, k=keyed, **some, **more))

    def heard(self, chosen: list[str]) -> None:
        """Judge what the leader chose."""
        self.asked.update(chosen)
        self.out.update(chosen)
        for run_id in chosen:
            run = self.gate.known[run_id]
            for use in uses_of(run.queue, run.limits):
                known = self.gate.controls.limits.get(use.name)
                most = None if known is None else known.bounds_of(use.key).concurrency
                holders = {
                    one.run_id
                    for one in map(self.gate.known.__getitem__, self.out)
                    if use in uses_of(one.queue, one.limits)
                }
                assert most is None or len(holders) <= most, (use, holders, most)

    def act(self) -> None:
        dice, gate = self.dice, self.gate
        gate.now += 10 * MILLISECOND
        match dice.choice(("due", "due", "dispatch", "dispatch", "end", "end", "commit", "refuse", "edit")):
            case "due":
                self.made += 1
                uses = dice.choice(USES)
                run = waiting(f"r{self.made:03}", *uses, queue=dice.choice("qp"), priority=dice.randint(4, 6))
                self.heard(gate.due(run))
            case "dispatch" if self.asked:
                run_id = dice.choice(sorted(self.asked))
                self.asked.discard(run_id)
                self.running.add(run_id)
                self.heard(gate.dispatched(run_id))
                self.heard(gate.started(run_id))
            case "refuse" if self.asked:
                run_id = dice.choice(sorted(self.asked))
                self.asked.discard(run_id)
                self.heard(gate.refused(run_id))
                if dice.random() < 0.5:
                    self.running.add(run_id)  # it was dispatched, and the answer was lost
                    self.heard(gate.row(run_id, RunState.RUNNING))
                else:
                    self.out.discard(run_id)
                    self.heard(gate.row(run_id, RunState.CANCELLED))
            case "end" if self.running:
                run_id = dice.choice(sorted(self.running))
                self.running.discard(run_id)
                self.heard(gate.ended(run_id))
                if dice.random() < 0.7:
                    self.commit()
            case "commit":
                self.commit()
            case "edit":
                self.edit()

    def commit(self) -> None:
        """One write after the other; now and then the database refuses an end, and with it what was to follow it."""
        writes, self.gate.applies = self.gate.applies, []
        for write in writes:
            over = sorted({one.run_id for one in write.transitions if one.to is not RunState.RUNNING})
            refused = self.dice.choice(over) if over and self.dice.random() < 0.2 else None
            self.out.difference_update(one for one in over if one != refused)
            self.gate.applies = [write]
            dispatched = self.gate.committed(*([refused] if refused else []))
            self.heard(dispatched)
            given = {one.run_id for one in handed_over(write)}
            self.handed += len(given.intersection(dispatched))
            if refused:
                self.running.add(refused)
                self.heard(self.gate.row(refused, RunState.RUNNING))
            for run_id in sorted(given.difference(dispatched)):
                self.heard(self.gate.row(run_id, RunState.CANCELLED))

    def may_go(self) -> list[str]:
        """The first runs of the lanes that nothing holds back."""
        state, found = self.gate.state, []
        for queue, lanes in state.dispatches.waiting.items():
            if state.controls.pause_of(queue, self.gate.now) is not None or not has_worker(state, queue):
                continue
            own = state.controls.limits.get(f"queue:{queue}")
            most = None if own is None else own.bounds.concurrency
            given = {one.run_id for write in self.gate.applies for one in handed_over(write)}
            if (
                most is not None
                and len({one for one in self.out | given if self.gate.known[one].queue == queue}) >= most
            ):
                continue
            found += [lane.runs[0][2] for lane in lanes.all() if lane.runs and full_limit(state, lane) is None]
        return found


@pytest.mark.slow
def test_never_more_than_a_limit_has_and_what_may_go_goes_within_two_passes() -> None:
    handed = 0
    for seed in range(SEEDS):
        play = Play(seed)
        for _ in range(60):
            play.act()
            play.heard(play.gate.step())
            play.heard(play.gate.step())
            assert play.may_go() == [], seed
        handed += play.handed
    assert handed > SEEDS // 2, "slots go to the next run in the transaction of an end"
