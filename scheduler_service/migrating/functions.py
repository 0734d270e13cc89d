"""A Python function of another scheduler as the task of a job. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_service.migrating.converted import CannotConvert


def task_of(
    function: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    task: str | None,
    differences: list[str],
    *,
    known: str | None = None,
) -> dict[str, Any]:
    """The task and its arguments: the Celery task `known`, the caller's `task`, or the one of the function's own name.

    A caller's task is given `function`, `args` and `kwargs`.
    """
    if known is not None:
        return {"task": known, "args": list(args), "kwargs": dict(kwargs)}
    if task is not None:
        return {"task": task, "kwargs": {"function": function, "args": list(args), "kwargs": dict(kwargs)}}
    module, _, name = function.partition(":")
    if "__main__" in module:
        raise CannotConvert(f"its function {function} is of a program that was run: move it into a module")
    own = f"{module}.{name}" if name else module
    differences.append(
        f"it calls {function}, which has to become the Celery task {own}; --task names one task that calls any function"
    )
    return {"task": own, "args": list(args), "kwargs": dict(kwargs)}
