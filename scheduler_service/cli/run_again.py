"""`itinerary runs again ID --set NAME=VALUE`: run a run's task once more with changes."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.job_options import Key
from scheduler_service.cli.status import Json

_NESTED: Final = ("args", "kwargs", "headers")
_FIELDS: Final = (
    "task",
    "queue",
    "priority",
    "timeout",
    "start_within",
    "must_end_within",
    "run_at",
    "retry",
    *_NESTED,
)
_KNOWN: Final = f"NAME is one of {', '.join(_FIELDS)}, or goes into one: kwargs.month, args.0, headers.tenant"

Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="What differs, such as kwargs.month=11 or queue=slow; JSON, or else text. May be repeated.",
    ),
]


def run_again(
    run_id: Annotated[str, typer.Argument(help="The run's id.", show_default=False)],
    changes: Changes = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Run a run's task once more, as a new run; hidden values that are not set stay the stored ones."""
    from scheduler_service.cli.output import print_json, print_message

    with open_client() as client:
        wanted = changed(client.run(run_id), changes or [])
        run = client.again(run_id, wanted, idempotency_key=key)
    if as_json:
        print_json(run)
    else:
        print_message(f"{run['run_id']} runs {run_id} again")


def changed(run: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
    """Return the fields that the options change, each whole, in the form of the API."""
    wanted: dict[str, Any] = {}
    for option in changes:
        name, equals, text = option.partition("=")
        field, *path = name.split(".")
        if not equals or field not in _FIELDS or (path and field not in _NESTED):
            raise BadValue("--set", option, f"give NAME=VALUE; {_KNOWN}")
        if not path:
            wanted[field] = _value(text)
        else:
            wanted[field] = _within(wanted.get(field, run[field]), path, _value(text), option)
    return wanted


def _within(whole: Any, path: list[str], value: Any, option: str) -> Any:
    """Return a copy of the JSON with the value at the path."""
    if not path:
        return value
    name, *rest = path
    if isinstance(whole, list):
        if not name.isdecimal() or int(name) > len(whole):
            raise BadValue("--set", option, f"{name} is no place in a list of {len(whole)}")
        place = int(name)
        inner = whole[place] if place < len(whole) else {}
        return [*whole[:place], _within(inner, rest, value, option), *whole[place + 1 :]]
    if whole is None or isinstance(whole, dict):
        there = whole or {}
        return {**there, name: _within(there.get(name, {}), rest, value, option)}
    raise BadValue("--set", option, f"{name} would go into {json.dumps(whole)}, which is no object")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
