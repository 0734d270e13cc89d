"""`itinerary up`: which parts run on one machine, with which settings, in which order.

Owns the choice of ports, and the embedded Redis if none is named. Promises: one `up` a data folder, the schema migrated
before anything starts, addresses and pids in run.json. The supervisor keeps the parts running.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import itinerary
import scheduler_service
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import SECOND, format_instant
from itinerary.protocol.keys import KEY_PREFIX_VARIABLE
from scheduler_service.bootstrap.parts import check_redis
from scheduler_service.config.settings import PREFIX, Settings
from scheduler_service.local.demo import with_demo_token
from scheduler_service.local.redis_server import ServerBinary, find_server, server_argv, server_folder, serves_folder
from scheduler_service.local.user_app import load_once, worker_env
from scheduler_service.runtime.addresses import Ports, answers, http_url, shown_url
from scheduler_service.runtime.app_python import AppPython, own_python
from scheduler_service.runtime.console import Console
from scheduler_service.runtime.private_files import (
    kept_password,
    new_password,
    private_folder,
    private_umask,
    write_private,
)
from scheduler_service.runtime.run_file import REDIS_FILE, only_one, read_run, record_run
from scheduler_service.runtime.supervisor import Part, State, Supervisor
from scheduler_service.sql.migrations import upgrade
from scheduler_service.version import VERSION

LOOPBACK: Final = "127.0.0.1"
FLOWER_FILE: Final = "flower.password"
# No package of the working directory takes precedence over ours.
_PYTHON: Final = (sys.executable, "-P")
EMBEDDED_REDIS_PORT: Final = 6390
"""Not Redis's own 6379: a program that empties "its" local Redis must not meet ours."""


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """The server that `up` runs itself."""

    binary: ServerBinary
    folder: Path
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """Return the whole address, password included."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"


@dataclass(frozen=True, slots=True)
class Plan:
    """The addresses of all parts; `redis` is None if it is not embedded. `notes` are for people."""

    settings: Settings
    redis: EmbeddedRedis | None
    api_port: int
    flower_port: int
    flower_password: str = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def redis_url(self) -> str:
        return self.redis.url if self.redis else self.settings.redis_url

    @property
    def api_url(self) -> str:
        return http_url(self.settings.api_host, self.api_port)

    @property
    def flower_url(self) -> str:
        return http_url(LOOPBACK, self.flower_port)


def run_up(
    settings: Settings,
    *,
    demo: bool = False,
    app: str | None = None,
    worker_python: AppPython | None = None,
    given: Mapping[str, object] = {},
) -> int:
    """Run everything until a signal; return the exit status.

    `app` is a user's own Celery app, as module:celery_app; `worker_python` runs it. Call it from the main thread.
    `given` are the options that another start needs too, for hints.
    """
    if "redis_url" in settings.model_fields_set:
        check_redis(settings)
    python = worker_python or own_python()
    with private_umask() as theirs, only_one(settings.data_dir), Ports() as ports:
        plan = create_plan(settings, read_run(settings.data_dir), ports)
        if app is not None and load_once(app, python, worker_env(child_env(plan, os.environ), os.environ, python)):
            return 2
        parts = parts_of(plan, demo=demo, app=app, python=python, worker_umask=theirs)
        console = Console([part.name for part in parts])
        try:
            console.plain("\n".join([f"Itinerary {VERSION}, everything in {settings.data_dir}", *plan.notes]))
            upgrade(settings.leader_database_url, console.plain, each_version=False)
            Supervisor(parts, console, _Journal(plan, console, given)).run()
        finally:
            last = {"redis_port": plan.redis.port} if plan.redis else {}
            record_run(settings.data_dir, {**last, "given": dict(given)} if given else last, console.plain)
            console.close()
    return 0


def create_plan(settings: Settings, last_run: Mapping[str, Any], ports: Ports) -> Plan:
    """Choose the ports: the requested one or BadValue; else the usual one if it is free; else another, with a note."""
    api_port = _choose(settings, "api_port", settings.api_host, ports)
    flower_port = _choose(settings, "flower_port", LOOPBACK, ports)
    notes = [
        f"port {usual} is in use: {name} is on {port}"
        for name, usual, port in (
            ("the API", settings.api_port, api_port),
            ("Flower", settings.flower_port, flower_port),
        )
        if port != usual
    ]
    redis = None
    if "redis_url" not in settings.model_fields_set:
        redis = embedded_redis(settings.data_dir, last_run, ports)
        notes.append(f"Redis is {redis.binary}")
    password, is_new = flower_password(settings)
    if is_new:
        notes.append(f"Flower asks for the user itinerary and the password {password} (kept in {FLOWER_FILE})")
    return Plan(settings, redis, api_port, flower_port, password, tuple(notes))


def flower_password(settings: Settings) -> tuple[str, bool]:
    """Return Flower's password, from the settings or the data folder, and whether it was created just now."""
    if settings.flower_password:
        return settings.flower_password, False
    private_folder(settings.data_dir)
    return kept_password(settings.data_dir / FLOWER_FILE)


def _choose(settings: Settings, name: str, host: str, ports: Ports) -> int:
    wanted: int = getattr(settings, name)
    if name not in settings.model_fields_set:
        return ports.take_from(wanted, host)
    if not ports.take(wanted, host):
        advice = f"this port of {host} is in use: give another, or none to have one chosen"
        raise BadValue(f"{PREFIX}{name.upper()}", wanted, advice)
    return wanted


def embedded_redis(data_dir: Path, last_run: Mapping[str, Any], ports: Ports) -> EmbeddedRedis:
    """Plan the server on its last port if that is free, so that programs that know it find Redis again."""
    binary = find_server()
    folder = server_folder(binary, data_dir)
    last = last_run.get("redis_port")
    password = _redis_password(data_dir)
    if not isinstance(last, int) or not 0 < last < 65536:
        last = EMBEDDED_REDIS_PORT
    elif serves_folder(last, folder, password) or serves_folder(last, folder):
        # On some kernels it survives a kill -9 of its parent; two servers would corrupt the folder.
        raise ItineraryError(f"a server of an earlier run still keeps {folder}: stop what listens on port {last}")
    chosen = EmbeddedRedis(binary, folder, ports.take_from(last, LOOPBACK), password)
    write_private(data_dir / REDIS_FILE, chosen.url + "\n")
    return chosen


def _redis_password(data_dir: Path) -> str:
    """Return the last password, so that programs that know the address find Redis again."""
    try:
        known = urlsplit((data_dir / REDIS_FILE).read_text("utf-8").strip()).password
    except (FileNotFoundError, ValueError):
        known = None
    return known or new_password()


def parts_of(
    plan: Plan, *, demo: bool, app: str | None = None, python: AppPython | None = None, worker_umask: int = -1
) -> list[Part]:
    """Return every program of this machine, in start order.

    `worker_umask` applies to the files of tasks; those of the other parts are private.
    """
    env = child_env(plan, os.environ)
    processes = str(max(4, min(8, os.cpu_count() or 1)))
    api_answers = answers(plan.settings.api_host, plan.api_port, "/healthz")
    flower_answers = answers(LOOPBACK, plan.flower_port, "/healthcheck")
    with_flower = {**env, f"{PREFIX}FLOWER_PASSWORD": plan.flower_password}
    env.pop(f"{PREFIX}FLOWER_PASSWORD", None)
    python = python or own_python()
    worker = python.command("worker", "-c", processes, *(["--app", app] if app else []))
    of_worker = {f"{PREFIX}API_URL": plan.api_url, **worker_env(env, os.environ, python)}  # a task may ask the API
    patience = plan.settings.stop_timeout / SECOND
    own = [
        Part("leader", _command("leader"), env, pause_signal=signal.SIGUSR1),
        Part("worker", worker, of_worker, stop_timeout=patience, umask=worker_umask),
        Part("api", _command("api"), with_flower, api_answers, stop_timeout=5),
        Part("flower", _command("flower"), with_flower, flower_answers, stop_timeout=5),
    ]
    with_token = env
    if demo and plan.settings.api_tokens:
        known, token = with_demo_token(os.environ)
        with_token = {**env, f"{PREFIX}API_TOKEN": token}
        with_flower[f"{PREFIX}API_TOKENS"] = known
    example = Part("demo", [*_PYTHON, "-m", "scheduler_service.local.demo", plan.api_url], with_token, once=True)
    return [*_redis_part(plan.redis), *own, *([example] if demo else [])]


def _redis_part(redis: EmbeddedRedis | None) -> list[Part]:
    if redis is None:
        return []
    argv = server_argv(redis.binary, redis.folder, redis.port, redis.password)
    return [Part("redis", argv, os.environ, lambda: serves_folder(redis.port, redis.folder, redis.password))]


def _command(*arguments: str) -> list[str]:
    return [*_PYTHON, "-m", "scheduler_service.cli", *arguments]


def child_env(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our own parts: values chosen here override existing ones."""
    settings = plan.settings
    homes = {str(Path(str(package.__file__)).resolve().parents[1]) for package in (scheduler_service, itinerary)}
    chosen = {
        "PYTHONPATH": os.pathsep.join(filter(None, [*sorted(homes), environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        f"{PREFIX}DATA_DIR": str(settings.data_dir),
        f"{PREFIX}DATABASE_URL": settings.database_url,
        f"{PREFIX}REDIS_URL": plan.redis_url,
        f"{PREFIX}API_PORT": str(plan.api_port),
        f"{PREFIX}FLOWER_PORT": str(plan.flower_port),
        f"{PREFIX}LOG_FORMAT": "console" if settings.log_format == "auto" else settings.log_format,
    }
    if settings.key_prefix:
        chosen[KEY_PREFIX_VARIABLE] = settings.key_prefix
    if settings.database_direct_url is not None:
        chosen[f"{PREFIX}DATABASE_DIRECT_URL"] = settings.database_direct_url
    return {**environ, **chosen}


class _Journal:
    """Follows every change of a part: updates run.json and prints the addresses once the API answers."""

    def __init__(self, plan: Plan, console: Console, given: Mapping[str, object]) -> None:
        self._plan = plan
        self._console = console
        self._announced = False
        self._parts: dict[str, dict[str, object]] = {}
        self._constant = {
            "pid": os.getpid(),
            "started_at": format_instant(int(time.time()) * SECOND),
            "api_url": plan.api_url,
            "flower_url": plan.flower_url,
            "redis_url": shown_url(plan.redis_url),
            "redis_port": plan.redis.port if plan.redis else None,
            "database_url": shown_url(plan.settings.database_url),
            "given": dict(given),
        }

    def __call__(self, name: str, state: State, pid: int | None) -> None:
        self._parts[name] = {"pid": pid, "state": state}
        record_run(self._plan.settings.data_dir, {**self._constant, "parts": self._parts}, self._console.plain)
        if name == "api" and state == "ready" and not self._announced:
            self._announced = True
            self._console.plain(address_table(self._plan))


def _where(plan: Plan, file: str) -> str:
    """Return the file that holds a hidden secret, if it was created here."""
    given = plan.settings.flower_password if file == FLOWER_FILE else plan.redis is None
    if given:
        return ""
    what = "password" if file == FLOWER_FILE else "whole address"
    return f", {what} in {plan.settings.data_dir / file}"


def address_table(plan: Plan) -> str:
    """List the address of each part, for people."""
    rows = [
        ("Dashboard", plan.api_url),
        ("API", f"{plan.api_url}/api/v1, described at {plan.api_url}/docs"),
        ("Flower", f"{plan.flower_url}, by the dashboard's link; user itinerary{_where(plan, FLOWER_FILE)}"),
        ("Metrics", f"{plan.api_url}/metrics"),
        ("Redis", f"{shown_url(plan.redis_url)}{_where(plan, REDIS_FILE)}"),
        ("Database", shown_url(plan.settings.database_url)),
    ]
    lines = [f"  {label:10} {address}" for label, address in rows]
    return "\n".join(["", *lines, "  Ctrl-C stops everything; what is stored stays.", ""])
