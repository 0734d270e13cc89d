"""Limits of concurrency and rate on real parts that are killed, measured by the tasks' own files; a flood; the cost.

The cost is told twice: of a run with a limit, and of runs without beside limits, queues and freezes of others.

Times without a leader are left out where a share of what the limits allow is given: nobody gives slots away then.
"""

import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Final

from itinerary.protocol.limits import LimitUse
from tests.benchmarks.bed import TASK, Bed, usage
from tests.benchmarks.control_trials import (
    KILL_EVERY,
    await_starts,
    covered,
    define_for_others,
    enqueue,
    lost_attempts,
    most_at_once,
    passed,
    put_limit,
    tasks,
    trial,
    windows,
    without_leader,
)
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.lives import PARTS, flowing, watch
from tests.support.processes import wait_until

KEYS: Final = 20
EACH: Final = 2
WORKERS: Final = 4
TASK_SECONDS: Final = 1.0
RATE: Final = (90, 10)
FLOOD: Final = 1_000_000
ROUNDS: Final = 2
PAIRS: Final = 5
FLOW: Final = 300
_OTHERS_START: Final = "SELECT extract(epoch FROM started_at) FROM runs WHERE run_id = 'adhoc_tenant-other-1'"


def figures(asked: Asked) -> Iterator[Figure]:
    """Concurrency, rate, flood, cost."""
    with Bed() as bed:
        yield from concurrency(asked, bed, 30 if asked.quick else 300)
        yield from rate(asked, bed, 3 if asked.quick else 9)
        yield from flood(asked, bed, 20_000 if asked.quick else FLOOD)
        yield from cost(asked, bed, 1_000 if asked.quick else 20_000)
        yield from unused(asked, bed, 5 if asked.quick else 20)


def concurrency(asked: Asked, bed: Bed, seconds: float) -> Iterator[Figure]:
    """Runs of 20 keys, 2 at a time each, while a leader or a worker is killed every ten seconds."""
    with trial(bed, WORKERS, KEYS * EACH // WORKERS + 2) as (scene, parts, record):
        put_limit(scene, "tenant", EACH)
        for key in range(KEYS):
            enqueue(scene, int(seconds / TASK_SECONDS * EACH * 1.5), LimitUse("tenant", f"k{key}"), TASK_SECONDS)
        await_starts(scene, KEYS * EACH)
        since = time.time()
        while time.time() < since + seconds:
            passed(KILL_EVERY)
            # `passed` is followed by one kill, so that the time with all parts is as long each time.
            parts.end_the_leader() if random.random() < 0.5 else parts.kill_a_worker()
        until = time.time()
        passed(2 * KILL_EVERY)  # what was lost is declared so
        found, lost, outside = tasks(record), lost_attempts(scene), without_leader(scene, since, until)
    spans = [(task.start, task.end) for task in found if task.end is not None] + list(lost.values())
    allowed = KEYS * EACH * (until - since - sum(b - a for a, b in outside))
    most = most_at_once(found, {task_id: end for task_id, (_, end) in lost.items()})
    asked.say(f"  {len(found)} tasks, {len(lost)} lost, {len(outside)} times without a leader")
    yield Figure(f"most tasks at once of one of {KEYS} keys, limit {EACH}", most, "tasks", target=EACH)
    share = covered(spans, outside, since, until) / allowed
    yield Figure("slots in use, of those that the limits allow", share, "", target=0.95, better="higher")


def rate(asked: Asked, bed: Bed, number: int) -> Iterator[Figure]:
    """Starts of 90 in 10 seconds over some windows, with a leader stopped and another one killed in between."""
    count, per = RATE
    with trial(bed, 2, 10) as (scene, parts, record):
        put_limit(scene, "api", rate=RATE)
        enqueue(scene, count * (number + 3), LimitUse("api"), 0)
        await_starts(scene)
        since = time.time()
        for step, fate in enumerate((signal.SIGTERM, signal.SIGKILL), start=1):
            passed(max(0.0, since + step * number * per / 3 - time.time()))
            parts.end_the_leader(fate)
        passed(max(0.0, since + number * per - time.time()))
        outside = without_leader(scene, since, since + number * per)
        starts = [task.start for task in tasks(record)]
    most, of_window = windows(starts, per)
    whole = [
        of_window[n] for n in range(number)
        if not any(a < starts[0] + (n + 1) * per and starts[0] + n * per < b for a, b in outside)
    ]  # fmt: skip
    asked.say(f"  starts by window: {[of_window[n] for n in range(number)]}")
    yield Figure(f"most starts in any {per} seconds, limit {count}", most, "starts", target=count)
    yield Figure(f"least in a window of {per} seconds with a leader", min(whole), "starts", target=85, better="higher")


def flood(asked: Asked, bed: Bed, number: int) -> Iterator[Figure]:
    """One run of another tenant behind very many of one, and what those cost the leader's memory."""
    with trial(bed, 1, 4) as (scene, parts, _):
        leader = parts.leaders[0]
        put_limit(scene, "tenant", EACH)
        enqueue(scene, 10, LimitUse("tenant", "first"), 0)
        await_starts(scene, 10)
        before = usage(leader.pid).rss
        began = time.time()
        enqueue(scene, number, LimitUse("tenant", "acme"), 0.5)
        scene.sql.execute("ANALYZE runs")
        asked.say(f"  {number:,} enqueued in {time.time() - began:.0f} s")
        passed(5 if asked.quick else 30)  # the leader reads what it reads of them
        at = time.time()
        enqueue(scene, 1, LimitUse("tenant", "other"), 0)
        wait_until(lambda: scene.value(_OTHERS_START), 120, lambda: scene.said)
        yield Figure(f"one run behind {number:,} of another tenant, enqueued to started",
                     float(scene.value(_OTHERS_START)) - at, "s", target=1.0)  # fmt: skip
        grown = (usage(leader.pid).rss - before) / 1e6
        yield Figure("the leader's memory, grown by them", grown, "MB", target=50.0)


def cost(asked: Asked, bed: Bed, number: int) -> Iterator[Figure]:
    """The leader's CPU of a run with one keyed limit that holds nobody back, beside runs without."""
    spent: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(1 if asked.quick else ROUNDS):
        for limited in (True, False) if turn % 2 else (False, True):
            spent[limited].append(_leader_cpu(bed, number, limited=limited))
            asked.say(f"  {'one keyed limit' if limited else 'no limit'}: {spent[limited][-1]:.0f} us")
    yield Figure("the leader's CPU of a run with one keyed limit", median(spent[True]), "us",
                 peer="without", peer_value=median(spent[False]))  # fmt: skip


def _leader_cpu(bed: Bed, number: int, *, limited: bool) -> float:
    """Microseconds of a run."""
    done = "SELECT count(*) FROM runs WHERE state = 'completed'"
    with bed.scene() as scene:
        scene.start("-m", "tests.benchmarks.pipeline_worker")
        leader = scene.start_leader()
        wait_until(lambda: scene.metric("scheduler_workers_alive"), 60, lambda: scene.said)
        put_limit(scene, "tenant", 10_000)
        before = usage(leader.pid).cpu
        for key in range(KEYS):
            enqueue(scene, number // KEYS, LimitUse("tenant", f"k{key}") if limited else None, 0, TASK, part=key)
        wait_until(lambda: scene.value(done) == number, 300, lambda: scene.said, 0.2)
        return (usage(leader.pid).cpu - before) / number * 1e6


def unused(asked: Asked, bed: Bed, seconds: float) -> Iterator[Figure]:
    """CPU of lives without limits where others use limits, fair queues and freezes, beside those where nothing is.

    Both flow at the same time, so that whatever else the machine does bears on both.
    """
    spent: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS[:3]}
    with Bed() as beside:
        for turn in range(1 if asked.quick else PAIRS):
            with flowing(bed, FLOW) as first, flowing(beside, FLOW) as second, ThreadPoolExecutor(2) as pool:
                others, alone = (first, second) if turn % 2 else (second, first)
                define_for_others(others[0])
                passed(2 if asked.quick else 10)
                pair = pool.map(lambda side: watch(*side, FLOW, seconds), (others, alone))
                with_others, without = ({p: 1e6 * one.cpu[p] / max(1, one.ended) for p in spent} for one in pair)
            for part, found in spent.items():
                found.append((with_others[part], without[part]))
            asked.say("  " + ", ".join(f"{p} {with_others[p] / without[p]:.3f}" for p in spent))
    for part, found in spent.items():
        yield Figure(f"CPU of {part} a life beside others' limits", median(one for one, _ in found), "us",
                     peer="nothing defined", peer_value=median(two for _, two in found))  # fmt: skip
