"""The command that starts a worker, for messages. Pure."""

import shlex
from typing import Final

ANY_APP: Final = "MODULE:APP"
_BUILT_IN: Final = "itinerary."


def worker_command(queue: str | None = None, *, app: str | None = None, task: str | None = None) -> str:
    """Return it, with the app whose tasks are waited for; without one only for a built-in `task`.

    A worker without the app would take the messages of its tasks and fail each as unknown.
    """
    built_in = app is None and task is not None and task.startswith(_BUILT_IN)
    words = ["itinerary", "worker", *([] if built_in else ["--app", app or ANY_APP])]
    return shlex.join([*words, *([] if queue is None else ["-Q", queue])])
