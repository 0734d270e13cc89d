"""One command for several jobs or runs: tries each, reports each refusal, and sets the status."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from itinerary.protocol.errors import ItineraryError


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
    refused = 0
    for name in dict.fromkeys(names):
        try:
            answer = act(name)
        except ApiError as exc:
            if len(names) == 1:
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
        raise ItineraryError(f"{refused} of {len(names)} were refused; the others are done")
