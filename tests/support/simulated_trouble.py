"""Who makes trouble in a simulation: users that change their minds, and faults of every part."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from itinerary.protocol.errors import Conflict, NotFound
from itinerary.protocol.identity import adhoc_run_id, task_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, format_instant
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.run_requests import again, read_trigger
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import FINAL, RunState
from tests.support.simulated_worker import SimWorker

if TYPE_CHECKING:
    from tests.support.simulation import Simulation


class Users:
    """Make, edit, pause, resume, delete and trigger jobs; enqueue, cancel and retry runs."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._dice = simulation.random
        self._names = [f"j{n}" for n in range(self._dice.randint(1, 3))]
        self._made = 0

    def begin(self, length: Duration) -> None:
        """Jobs at once, changes over the whole time."""
        for name in self._names:
            self.put_job(name)
        actions = (self.put_job, self.put_job, self.pause, self.resume, self.delete, self.trigger)
        for _ in range(self._dice.randint(2, 8)):
            action, name = self._dice.choice(actions), self._dice.choice(self._names)
            self._later(length, lambda act=action, job=name: act(job))
        for _ in range(self._dice.randint(2, 8)):
            action = self._dice.choice((self.enqueue, self.enqueue, self.cancel, self.cancel, self.retry))
            self._later(length, action)

    def end(self) -> None:
        """No occurrence comes after this, and no pause keeps a run back."""
        for name in self._names:
            if self._dice.random() < 0.5:
                self.pause(name, for_ever=True)
            else:
                self.delete(name)

    def _later(self, length: Duration, action: Any) -> None:
        self._simulation.push(self._simulation.t + self._dice.randrange(length), lambda: self._act(action))

    def _act(self, action: Any) -> None:
        if self._simulation.database_away:
            return
        try:
            action()
        except (Conflict, NotFound) as refused:
            self._simulation.note(f"user: {refused}")

    def _tell(self, kind: str, **body: Any) -> None:
        """The API's word to the leader, which is lost when the API dies between commit and sending."""
        if self._dice.random() >= 0.1:
            self._simulation.send(kind, body)

    def put_job(self, job_id: str) -> None:
        dice, simulation = self._dice, self._simulation
        seconds = dice.choice((1, 2, 3, 5, 7))
        now = simulation.host_now()
        cron = {"kind": "cron", "expr": f"* * * * * */{dice.choice((2, 5, 10))}"}
        once = {"kind": "once", "at": format_instant(now + dice.randrange(20 * SECOND))}
        interval = {"kind": "interval", "every": f"{seconds}s"}
        grace = dice.choice(("1s", "3s", "30s"))
        misfire = {"policy": dice.choice(("fire_once", "fire_all", "skip")), "grace": grace}
        body: dict[str, Any] = {
            "job_id": job_id, "task": "demo.task", "kwargs": {"n": simulation.fresh()},
            "schedule": dice.choice((interval, interval, cron, once)),
            "overlap": dice.choice(("skip", "allow", "queue", "queue_all", "cancel_running")),
            "misfire": {**misfire, "max_catch_up": dice.randint(1, 5)},
            "retry": {"max_attempts": dice.randint(1, 3), "initial": "500ms", "jitter": False},
            "jitter": dice.choice(("0s", "0s", "0s", "2s")), "priority": dice.randint(0, 9),
            "tags": ["even"] if job_id in ("j0", "j2") else [],
        }  # fmt: skip
        if dice.random() < 0.2:
            body["start_at"] = format_instant(now + dice.randrange(-5 * SECOND, 10 * SECOND))
        if dice.random() < 0.2:
            body["end_at"] = format_instant(now + dice.randrange(11 * SECOND, 30 * SECOND))
        job, _ = read_job(body, created_at=simulation.database_now())
        made, how = simulation.store.jobs.replace(job, None)
        simulation.note(f"user: {job_id} version {made.version} {how}: {body}")
        self._tell("job_changed", job_id=job_id, change="modified")

    def pause(self, job_id: str, *, for_ever: bool = False) -> None:
        until = None
        if not for_ever and self._dice.random() < 0.5:
            until = self._simulation.host_now() + self._dice.randrange(20 * SECOND)
        self._simulation.note(f"user: pause {job_id} until {until and format_instant(until)}")
        self._change(job_id, lambda: self._simulation.store.jobs.set_paused(job_id, True, "why", until, skips=for_ever))

    def resume(self, job_id: str) -> None:
        self._simulation.note(f"user: resume {job_id}")
        self._change(job_id, lambda: self._simulation.store.jobs.set_paused(job_id, False, None, None))

    def delete(self, job_id: str) -> None:
        self._simulation.note(f"user: delete {job_id}")
        self._change(job_id, lambda: self._simulation.store.jobs.delete(job_id, None))

    def _change(self, job_id: str, change: Any) -> None:
        try:
            change()
        except NotFound:
            return
        self._tell("job_changed", job_id=job_id, change="modified")

    def trigger(self, job_id: str) -> None:
        job = self._simulation.store.jobs.get(job_id)
        body = self._dice.choice(({}, {"overlap": "allow"}, {"overlap": "queue"}, {"overlap": "skip"}))
        self._add(read_trigger(job, body, self._number(), self._simulation.database_now()))

    def enqueue(self) -> None:
        due_at = self._simulation.database_now() + self._dice.choice((0, 0, 1, 5)) * SECOND
        retry = RetryPolicy(max_attempts=self._dice.randint(1, 3), initial=500 * MILLISECOND, jitter=False)
        number = self._number()
        # By its number and not by the dice: the other events of a seed stay what they were.
        within = (None, SECOND, 5 * SECOND, None)[sum(map(ord, number)) % 4]
        run = NewRun(adhoc_run_id(number), RunKind.ADHOC, "demo.task", due_at, due_at, retry=retry, start_within=within)
        is_apart = self._simulation.own_queues and int(number) % 2 == 1
        self._add(replace(run, queue=f"once.{number}") if is_apart else run)

    def enqueue_last(self) -> None:
        """A run of the one queue that stays, once all others have ended."""
        due_at = self._simulation.database_now()
        self._add(NewRun(adhoc_run_id(self._number()), RunKind.ADHOC, "demo.task", due_at, due_at))

    def _add(self, run: NewRun) -> None:
        self._simulation.note(f"user: {run.run_id}")
        self._simulation.store.runs.enqueue([run])
        self._tell("run_enqueued", run_ids=[run.run_id])

    def cancel(self) -> None:
        rows = [row.run_id for row in self._simulation.store.tables.runs.values() if row.state not in FINAL]
        if rows:
            run_id = self._dice.choice(rows)
            self._simulation.note(f"user: cancel {run_id}")
            self._simulation.store.runs.request_cancel(run_id)
            self._tell("cancel_run", run_id=run_id)

    def retry(self) -> None:
        rows = [row.run_id for row in self._simulation.store.tables.runs.values() if row.state in FINAL]
        if rows:
            run = self._simulation.store.runs.get(self._dice.choice(rows))
            self._add(again(run, self._number(), self._simulation.database_now()))

    def _number(self) -> str:
        self._made += 1
        return f"{self._made:04}"


class Faults:
    """What breaks, when, for how long."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._dice = simulation.random
        # Of its own, so that a seed recalls as often whatever else happens.
        self._recalls = random.Random(simulation.seed)

    def begin(self, length: Duration) -> None:
        self.recall()
        faults = (
            self.kill_leader, self.cut_leader, self.cut_leader, self.cut_leader, self.freeze_leader,
            self.stop_leader, self.kill_worker, self.freeze_worker, self.redis_away, self.freeze_redis,
            self.database_away, self.step_clock, self.freeze_all, self.wipe_redis, self.wipe_redis, self.restart_redis,
        )  # fmt: skip
        for _ in range(self._dice.randint(0, 6)):
            at = self._simulation.t + self._dice.randrange(length)
            self._simulation.push(at, self._dice.choice(faults))

    def end(self) -> None:
        """Everything is there again, and stays."""
        simulation = self._simulation
        simulation.calm = True
        simulation.after_next.clear()
        simulation.unsure = simulation.losing = simulation.doubling = simulation.shuffling = 0
        simulation.set_redis_away(False)
        simulation.set_redis_frozen(False)
        simulation.database_away = False
        for worker in list(simulation.workers):
            worker.thaw()

    def kill_leader(self) -> None:
        for leader in self._simulation.leaders:
            leader.die("killed")

    def cut_leader(self) -> None:
        for leader in self._simulation.leaders:
            leader.die_after(self._dice.randint(1, 6))

    def recall(self) -> None:
        """Again and again, in some histories often."""
        simulation = self._simulation
        for leader in simulation.leaders:
            leader.recall_some(self._recalls)
        if not simulation.calm:
            pause = int(self._recalls.uniform(0.05, 1) * SECOND)
            simulation.push(simulation.t + pause, self.recall)

    def stop_leader(self) -> None:
        for leader in self._simulation.leaders:
            if not leader.dead:
                leader.stop()

    def freeze_leader(self) -> None:
        for leader in self._simulation.leaders:
            leader.freeze(self._length())

    def freeze_all(self) -> None:
        if self._simulation.t < self._simulation.undisturbed_until:
            return
        length = self._length()
        for process in (*self._simulation.leaders, *self._simulation.workers):
            process.freeze(length)

    def kill_worker(self) -> None:
        simulation = self._simulation
        if simulation.t < simulation.undisturbed_until:
            return
        worker = self._dice.choice(simulation.workers)
        worker.die("killed")
        simulation.workers.remove(worker)
        simulation.workers.append(SimWorker(simulation, f"w{simulation.fresh()}"))

    def freeze_worker(self) -> None:
        if self._simulation.t < self._simulation.undisturbed_until:
            return
        self._dice.choice(self._simulation.workers).freeze(self._length())

    def redis_away(self) -> None:
        simulation = self._simulation
        if not simulation.redis_away:
            simulation.set_redis_away(True)
            simulation.push(simulation.t + self._length(), lambda: simulation.set_redis_away(False))

    def freeze_redis(self) -> None:
        """Nobody is answered, and nobody is told so: at once, or when a task has begun."""
        if self._dice.random() < 0.5:
            self._freeze()
        else:
            self._simulation.after_next["start"] = lambda: self._simulation.push(
                self._simulation.t + self._dice.randrange(2 * SECOND), self._freeze
            )

    def _freeze(self) -> None:
        simulation = self._simulation
        if not (simulation.redis_away or simulation.calm):
            simulation.set_redis_frozen(True)
            length = self._dice.randrange(12 * SECOND)
            simulation.push(simulation.t + length, lambda: simulation.set_redis_frozen(False))

    def wipe_redis(self) -> None:
        """All data of Redis are gone, at once, or just when the leader was about to hear of a start or an end."""
        when = self._dice.choice(("start", "report", None))
        if when is None:
            self._wipe()
        else:
            self._simulation.after_next[when] = self._wipe

    def _wipe(self) -> None:
        """At most once is promised for workers that live to say what they run."""
        simulation = self._simulation
        if simulation.redis_away or self._nobody_would_say():
            return
        broker_too = self._dice.random() < 0.5
        simulation.note(f"redis is wiped{', and the broker' if broker_too else ''}")
        simulation.undisturbed_until = simulation.t + 30 * SECOND
        simulation.inbox.wipe()
        simulation.claims.wipe()
        if broker_too:
            simulation.dispatcher.wipe()

    def restart_redis(self) -> None:
        """Another server process with all its data."""
        simulation = self._simulation
        simulation.note("redis is another process")
        simulation.claims.restart()
        simulation.dispatcher.server += "'"

    def _nobody_would_say(self) -> bool:
        """Whether an attempt began of which the database does not know, on a worker that is gone or stands still."""
        simulation = self._simulation
        awake = [worker for worker in simulation.workers if worker.frozen_until <= simulation.t]
        said = {attempt for worker in awake for attempt in (*worker.running, *worker.told_lately())}
        rows = simulation.store.tables.runs.values()
        pending = {(row.run_id, row.attempt) for row in rows if row.state is RunState.PENDING}
        return any(task_id(*one) not in said for one in pending if one in simulation.log)

    def database_away(self) -> None:
        simulation = self._simulation
        simulation.note("database goes away")
        simulation.database_away = True

        def back() -> None:
            simulation.note("database is back")
            simulation.database_away = False

        simulation.push(simulation.t + self._length(), back)

    def step_clock(self) -> None:
        simulation = self._simulation
        step = int(self._dice.uniform(-1, 1) * self._dice.choice((1, 8, 8, 90)) * SECOND)
        simulation.host_now()
        simulation.note(f"the database's clock steps by {step / SECOND:.3f} s")
        simulation.offset += step
        simulation.stepped += abs(step)
        simulation.steps += 1

    def _length(self) -> Duration:
        return int(self._dice.choice((0.3, 1, 3, 8, 15)) * self._dice.uniform(0.5, 1.5) * SECOND)
