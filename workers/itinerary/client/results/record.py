"""The base of all results: a JSON object of the API as a typed, immutable value.

Promises that the answer of another release can be read too. A field that it lacks is None; one that is not known here
is in `body`, and read by `answer["name"]`.
"""

from collections.abc import Callable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from itinerary.protocol.instants import parse_instant, to_datetime

_Answer = TypeVar("_Answer", bound="Answer")
_Read = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """One JSON object: typed fields, and the object itself as `body`, also read as `answer["name"]`."""

    body: Mapping[str, Any] = field(init=False, repr=False)

    @classmethod
    def of(cls: type[_Answer], body: Mapping[str, Any]) -> _Answer:
        """Read an answer's JSON."""
        known: Any = cls
        answer: _Answer = known(**{name: read(body.get(key)) for name, key, read in _readers(known)})
        object.__setattr__(answer, "body", body)
        return answer

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field as it is in the JSON, or `default`."""
        return self.body.get(name, default)

    def keys(self) -> KeysView[str]:
        """The names of the JSON's fields, so that `dict(answer)` is that object."""
        return self.body.keys()


@dataclass(frozen=True, eq=False)
class Record(Answer, Mapping[str, Any]):
    """One thing of the service, which is also a mapping of its JSON."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    def __len__(self) -> int:
        return len(self.body)


@lru_cache(None)
def _readers(kind: Any) -> list[tuple[str, str, _Read]]:
    hints = get_type_hints(kind)
    named = [each for each in fields(kind) if each.init]
    return [(each.name, each.metadata.get("json", each.name), _reader(hints[each.name])) for each in named]


def _reader(hint: Any) -> _Read:
    """How a field of this type is read; None stays None."""
    arguments = get_args(hint)
    if get_origin(hint) is list:
        read = _reader(arguments[0])
        return lambda value: None if value is None else [read(one) for one in value]
    if get_origin(hint) is dict and (of := _reader(arguments[1])) is not _as_it_is:
        return lambda value: None if value is None else {name: of(one) for name, one in value.items()}
    if type(None) in arguments:
        return _reader(arguments[0]) if len(arguments) == 2 else _as_it_is
    if hint is datetime:
        return lambda text: None if text is None else to_datetime(parse_instant(text))
    if isinstance(hint, type) and issubclass(hint, Answer):
        return lambda body: None if body is None else hint.of(body)
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
