"""A supervisor as a process of its own: reads its parts from a JSON file, prints what changes.

    python -m tests.support.supervised parts.json

Each part is {"name", "argv", "ready_file"?, "once"?, "stop_timeout"?, "pause_signal"?}; `ready_file` means ready once
it exists.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler_service.runtime.console import Console
from scheduler_service.runtime.supervisor import Part, Supervisor


def main() -> None:
    wanted: list[dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text())
    console = Console([part["name"] for part in wanted])
    Supervisor([_part(part) for part in wanted], console).run()
    console.close()


def _part(wanted: dict[str, Any]) -> Part:
    return Part(
        name=wanted["name"],
        argv=wanted["argv"],
        env=os.environ,
        ready=_exists(wanted["ready_file"]) if "ready_file" in wanted else None,
        once=wanted.get("once", False),
        stop_timeout=wanted.get("stop_timeout", 5),
        pause_signal=signal.Signals[wanted["pause_signal"]] if "pause_signal" in wanted else None,
    )


def _exists(path: str) -> Callable[[], bool]:
    return Path(path).exists


if __name__ == "__main__":
    main()
