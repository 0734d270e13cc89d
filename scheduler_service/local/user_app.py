"""The user's own Celery app under `itinerary up`: its environment, and its first load before anything starts."""

import subprocess
from collections.abc import Mapping

from scheduler_service.config.settings import PREFIX
from scheduler_service.runtime.app_python import AppPython


def worker_env(ours: Mapping[str, str], environ: Mapping[str, str], python: AppPython) -> dict[str, str]:
    """Return the environment of tasks: without Flower's password; in another interpreter without our packages."""
    env = {name: value for name, value in ours.items() if name != f"{PREFIX}FLOWER_PASSWORD"}
    if not python.ours:
        env.pop("PYTHONPATH", None)
        env |= {name: value for name, value in environ.items() if name == "PYTHONPATH"}
    return env


def load_once(app: str, python: AppPython, env: Mapping[str, str]) -> int:
    """Load the app as its worker will, and return the exit status; if it is not 0, the reason is on stderr."""
    command = python.command("worker", "--check", "--app", app)
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
