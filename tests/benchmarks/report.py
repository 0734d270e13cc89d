"""A page of what was measured: the machine, the versions, every figure, the pictures. It says how to measure again."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import psutil

from tests.support.postgres_server import postgres_version
from tests.support.redis_server import real_redis_binary

PAGE: Final = "README.md"
_PACKAGES: Final = ("celery", "celery-redbeat", "apscheduler", "redis", "psycopg", "sqlalchemy", "numpy")


def write(folder: Path, bodies: Sequence[dict[str, Any]], suites: Sequence[str], seconds: float) -> None:
    """Write the page beside the pictures that are in `folder`."""
    lines = [
        "# Measured",
        "",
        f"By `python3 deploy bench {' '.join(suites)} --report {folder}`, {datetime.now(UTC):%Y-%m-%d}, "
        f"in {seconds / 60:.0f} minutes. {machine()}",
        "",
        "A figure's peer or limit was measured in the same run on the same machine; the ratio is ours to it. "
        "PostgreSQL has 512 MB of buffers and every commit on disk, Redis `appendfsync always`.",
    ]
    for suite, some in groupby(bodies, key=lambda body: str(body["suite"])):
        lines += [
            "",
            f"## {suite}",
            "",
            "| figure | value | to reach | beside |",
            "|---|---|---|---|",
            *map(_row, some),
        ]
        lines += ["", *(f"![{path.stem}]({path.name})" for path in sorted(folder.glob(f"{suite}*.svg")))]
    (folder / PAGE).write_text("\n".join(lines) + "\n")


def machine() -> str:
    """What it ran on, in two sentences."""
    memory = psutil.virtual_memory().total / 2**30
    kind = f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    redis = real_redis_binary()
    servers = f"PostgreSQL {postgres_version()}, {redis.kind.title()} {'.'.join(map(str, redis.version))}"
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"{kind}. Python {platform.python_version()}, {servers}, {packages}."


def _row(body: dict[str, Any]) -> str:
    name = body["name"].strip()
    shown = f"… {name}" if body["name"].startswith(" ") else name
    target = "" if body["target"] is None else f"{_number(body['target'])}{'' if body['met'] else ' **missed**'}"
    beside = "" if body["ratio"] is None else f"{body['ratio']:.3g} of {body['peer']}"
    return f"| {shown} | {_number(body['value'])} {body['unit']} | {target} | {beside} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")
