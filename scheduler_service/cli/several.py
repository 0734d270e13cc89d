"""One command for several jobs or runs: tries each, reports each refusal, and sets the status."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from itinerary.protocol.errors import ItineraryError


class NothingToDo(ItineraryError):
    """The command cannot do what was asked any more; nothing was changed."""


def each(
    names: Sequence[str],
    act: Callable[[str], Mapping[str, Any]],
    as_json: bool,
    tell: Callable[[str, Mapping[str, Any]], None],
) -> None:
    """Act on each; a single one's refusal is raised as it is, among several it is a line on stderr and status 1."""
    from itinerary.client.transport import ApiError
    from scheduler_service.cli.output import print_json
    from scheduler_service.observability.logs import escaped

    done: list[Mapping[str, Any]] = []
    refused, distinct = 0, dict.fromkeys(names)
    for name in distinct:
        try:
            answer = act(name)
        except (ApiError, NothingToDo) as exc:
            if len(distinct) == 1:
                raise
            refused += 1
            print(f"itinerary: {escaped(f'{name}: {exc}')}", file=sys.stderr)
            continue
        done.append(answer)
        if not as_json:
            tell(name, answer)
    if as_json:
        print_json(done[0] if len(names) == 1 else {"items": done})
    if refused:
        rest = "; the others are done" if done else ""
        raise ItineraryError(f"{refused} of {len(distinct)} were refused{rest}")
