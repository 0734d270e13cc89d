"""A leader that comes to grief at a named point: `python -m tests.support.crashing_leader POINT ACTION FOLDER`.

Armed once FOLDER/armed exists. `kill`: SIGKILL to itself. `stop`: SIGSTOP to itself. `hold`: that thread waits until
FOLDER/free exists. Says `at the point port=N` first. Settings as for any leader.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler_service.bootstrap.parts import run_until_signalled
from scheduler_service.config.settings import load_settings
from scheduler_service.observability.logs import configure_logs
from tests.support.crash_points import Trap, open_watched_leader
from tests.support.processes import wait_until


def main(point: str, action: str, folder: Path) -> None:
    """Run until it is over."""
    settings = load_settings()
    configure_logs(settings.log_format, settings.log_level)
    spring = {"kill": _signal_me(signal.SIGKILL), "stop": _signal_me(signal.SIGSTOP), "hold": _hold(folder / "free")}

    def come_to_grief(port: int) -> None:
        print(f"at the point port={port}", flush=True)
        spring[action]()

    with open_watched_leader(settings, Trap(point, (folder / "armed").exists, come_to_grief)) as leader:
        run_until_signalled(leader)


def _signal_me(number: signal.Signals) -> Callable[[], None]:
    """To this very thread, so that it does not do another thing before the process is stopped."""
    return lambda: signal.pthread_kill(threading.get_ident(), number)


def _hold(freed: Path) -> Callable[[], None]:
    return lambda: wait_until(freed.exists, what="to be freed") and None


if __name__ == "__main__":
    os.environ.setdefault("ITINERARY_LOG_FORMAT", "console")
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
