"""What the recording app wrote: the truth about starts and ends, apart from the product's own history."""

import itertools
import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Truth:
    """Starts and ends per Celery task id, with the time of each first start."""

    starts: Counter[str]
    ends: Counter[str]
    started_at: dict[str, float]

    def starts_of(self, run_id: str) -> int:
        """How often any attempt of the run was started."""
        return sum(count for task_id, count in self.starts.items() if task_id.rpartition("~")[0] == run_id)


def read_truth(path: Path) -> Truth:
    starts: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    started_at: dict[str, float] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        facts = json.loads(line)
        if facts["event"] == "start":
            starts[facts["task_id"]] += 1
            started_at.setdefault(facts["task_id"], facts["at"])
        else:
            ends[facts["task_id"]] += 1
    return Truth(starts, ends, started_at)


def seconds(text: str) -> float:
    """An RFC 3339 time as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def occurrences(runs: list[dict[str, Any]], job_id: str) -> list[float]:
    """The nominal times of the job's planned runs, ascending."""
    return sorted(seconds(r["scheduled_at"]) for r in runs if r["job_id"] == job_id and "_manual-" not in r["run_id"])


def steps(times: list[float]) -> list[float]:
    """The distances between neighbouring instants."""
    return [later - earlier for earlier, later in itertools.pairwise(times)]
