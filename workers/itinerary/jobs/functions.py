"""Plain functions as tasks: how many of (job_id, scheduled_at) such a function takes before its own arguments."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def leading(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    """Return 0, 1 or 2: as many as it requires beside these arguments; None if it cannot be called with them.

    A parameter with a default keeps it, unless the job gives a value.
    """
    try:
        signature = inspect.signature(function)
        required = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind in _POSITIONAL and parameter.default is parameter.empty and parameter.name not in kwargs
        ]
        takes_all = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in signature.parameters.values())
        count = 2 if takes_all else min(2, max(0, len(required) - len(args)))
        signature.bind(*("", None)[:count], *args, **kwargs)
    except (TypeError, ValueError):
        return None
    return count
