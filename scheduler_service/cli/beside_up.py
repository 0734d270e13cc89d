"""The Redis of the data folder's `itinerary up`, and the options of its last start, for other commands."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from itinerary.protocol.errors import BadValue
from itinerary.protocol.keys import KEY_PREFIX_VARIABLE
from scheduler_service.config.settings import PREFIX, Settings
from scheduler_service.runtime.run_file import REDIS_FILE, read_run


def as_up_runs_it(settings: Settings, *, last: bool = False) -> Settings:
    """Return the settings with the Redis that `up` chose, unless another one is named; `last`: after its stop too."""
    run = read_run(settings.data_dir)
    if "redis_url" in settings.model_fields_set or not run.get("redis_port") or not (last or run.get("pid")):
        return settings
    try:
        url = (settings.data_dir / REDIS_FILE).read_text("utf-8").strip()
    except FileNotFoundError:
        return settings
    except OSError as exc:
        place = settings.data_dir / REDIS_FILE
        raise BadValue(f"{PREFIX}REDIS_URL", None, f"{place} holds it and cannot be read: {exc.strerror}") from exc
    broker = settings.broker_url if "broker_url" in settings.model_fields_set else url
    return settings.model_copy(update={"redis_url": url, "broker_url": broker})


def worker_variables(settings: Settings) -> dict[str, str]:
    """Return the variables by which a worker finds the Redis of these settings; none where nothing named one."""
    found = as_up_runs_it(settings)
    given = {
        f"{PREFIX}REDIS_URL": found.redis_url if "redis_url" in found.model_fields_set else "",
        f"{PREFIX}BROKER_URL": found.broker_url if "broker_url" in found.model_fields_set else "",
        KEY_PREFIX_VARIABLE: found.key_prefix,
    }
    return {name: value for name, value in given.items() if value}


def up_command(data_dir: Path) -> str:
    """Return the command that starts the `up` of this folder again, with the options of its last start."""
    given: Mapping[str, Any] = read_run(data_dir).get("given") or {}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    place = [] if data_dir == Path(".itinerary").absolute() else ["--data-dir", str(data_dir)]
    return shlex.join(["itinerary", "up", *words, *place])


def app_of_up(data_dir: Path) -> str | None:
    """Return the app that the last `up` of this folder ran, as module:celery_app."""
    given: Mapping[str, Any] = read_run(data_dir).get("given") or {}
    return given.get("app")
