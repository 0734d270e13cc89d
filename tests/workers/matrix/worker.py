"""A worker of one environment in one pool, and the service that it works for."""

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery import Celery

from itinerary import Client
from tests.support.deployment import Deployment
from tests.support.matrix import Column
from tests.support.processes import PATIENCE, Child, project_env, wait_until

_APP = (Path(__file__).with_name("shop.py"), Path(__file__).parents[1] / "witness.py")


def copy_app(folder: Path) -> None:
    """Put the app into a folder of its own, as its user has it."""
    for file in _APP:
        shutil.copy(file, folder)


@dataclass(frozen=True)
class Service:
    """A leader and an API."""

    deployment: Deployment
    client: Client

    @property
    def redis_url(self) -> str:
        """Without a database number."""
        return self.deployment.redis.url.removesuffix("/0")

    def outsider(self) -> Celery:
        """A program that sends messages of its own."""
        return Celery("outsider", broker=f"{self.redis_url}/0", set_as_current=False)


@dataclass
class Shop:
    """The user's app in its own folder, on a queue of its own; `worker` runs it, `ids` are the runs that were named."""

    service: Service
    column: Column
    pool: str
    python: str
    folder: Path
    begun: float = field(default_factory=time.time)
    ids: dict[str, str] = field(default_factory=dict)
    children: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        copy_app(self.folder)
        self.worker = self.start(self.by_celery())

    @property
    def queue(self) -> str:
        return f"{self.column}-{self.pool}"

    @property
    def node(self) -> str:
        return f"{self.queue}@here"

    @property
    def env(self) -> dict[str, str]:
        """That of the worker: nothing of this checkout, and no setting of ours."""
        env = project_env(SHOP_REDIS=self.service.redis_url, SHOP_QUEUE=self.queue, TRUTH=str(self.folder / "truth"))
        del env["PYTHONPATH"]
        return env

    def by_celery(self) -> list[str]:
        """Celery's own command."""
        concurrency = ["-c", "4"]
        return ["celery", "-A", "shop", "worker", "-P", self.pool, *concurrency, "-n", self.node, "-l", "INFO"]

    def by_itinerary(self, name: str) -> list[str]:
        """Our command, on a queue of this name."""
        return ["itinerary", "--app", "shop:app", "-P", self.pool, "-c", "1", "-Q", name, "-n", f"{name}@here"]

    def spawn(self, words: list[str], **settings: str) -> Child:
        """A process of the environment."""
        child = Child([self.python, "-m", *words], env=self.env | settings, cwd=self.folder)
        return self.children.enter_context(child)

    def start(self, words: list[str]) -> Child:
        """A worker, ready when this returns."""
        child = self.spawn(words)
        child.wait_for_line("ready.")
        return child

    def enqueue(self, task: str, *args: Any, name: str = "", queue: str = "", **more: Any) -> str:
        """A run of the app's task; its id."""
        run = self.service.client.enqueue(f"shop.{task}", list(args), queue=queue or self.queue, **more)
        run_id: str = run["run_id"]
        self.ids[name or task] = run_id
        return run_id

    def ended(self, name: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """The run of this name, once it is final."""
        try:
            return self.service.client.wait(self.ids[name], timeout=timeout)
        except Exception as exc:
            raise AssertionError(f"{exc}\n{self.worker.output[-6000:]}") from exc

    def gate(self, name: str) -> str:
        """The path of a file that tasks wait for."""
        return str(self.folder / name)

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()

    @property
    def truth(self) -> list[str]:
        place = self.folder / "truth"
        return place.read_text().splitlines() if place.exists() else []

    def witnessed(self, line: str, times: int = 1) -> None:
        """Wait until task bodies wrote this."""
        wait_until(
            lambda: self.truth.count(line) >= times,
            what=lambda: f"{line!r} in {self.truth}\n{self.worker.output[-6000:]}",
        )

    def moments(self, task: str, name: str, times: int = 1) -> list[float]:
        """When bodies of this task began, once there are so many, in order."""

        def found() -> list[float]:
            return sorted(float(line.split()[2]) for line in self.truth if line.startswith(f"{task} {name} "))

        wait_until(lambda: len(found()) >= times, what=lambda: f"{times} of {task} {name} in {self.truth}")
        return found()
