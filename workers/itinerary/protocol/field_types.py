"""JSON types of the fields of jobs and runs, each with its bounds. Pure.

`core.contract.job_table` lists the fields. The document, the form and the command line go by their types.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant, format_duration, format_instant, parse_duration, parse_instant

T = TypeVar("T")


class FieldType(Protocol):
    """A JSON type: `read` makes a value of JSON, `write` makes JSON of a value. Null is none of its values."""

    def read(self, value: Any, field: str, /) -> Any:
        """Return the value, or raise BadValue by the name of the field."""

    def write(self, value: Any, /) -> Any:
        """Return the JSON, from which `read` makes the same value."""
        return value


@dataclass(frozen=True, eq=False)
class Plain(FieldType):
    """JSON that one function reads and another writes."""

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any]


@dataclass(frozen=True)
class Number(FieldType):
    """A number within its bounds, without a fraction where it has none."""

    low: int
    high: int
    of: ClassVar[Any] = int | float
    kind: ClassVar[str] = "number"

    def read(self, value: Any, field: str) -> float:
        if isinstance(value, bool) or not isinstance(value, self.of) or not self.low <= value <= self.high:
            raise BadValue(field, value, f"give a {self.kind} from {self.low} to {self.high}")
        return self.write(value)

    def write(self, value: float) -> float:
        return int(value) if value == int(value) else float(value)


class Whole(Number):
    """A whole number within its bounds; 1.0 is none."""

    of = int
    kind = "whole number"

    def write(self, value: float) -> float:
        return value


class Flag(FieldType):
    """True or false."""

    def read(self, value: Any, field: str) -> bool:
        if not isinstance(value, bool):
            raise BadValue(field, value, "give true or false")
        return value


class Time(FieldType):
    """An instant, as RFC 3339 with an offset."""

    def read(self, value: Any, field: str) -> Instant:
        return parse_instant(value, field)

    def write(self, value: Instant) -> str:
        return format_instant(value)


@dataclass(frozen=True)
class Span(FieldType):
    """A duration within its bounds, in microseconds."""

    low: int
    high: int

    @property
    def bounds(self) -> str:
        """The bounds as a message says them."""
        return f"from {format_duration(self.low)} to {format_duration(self.high)}"

    def read(self, value: Any, field: str) -> int:
        duration = parse_duration(value, field)
        if not self.low <= duration <= self.high:
            raise BadValue(field, value, f"give a duration {self.bounds}")
        return duration

    def write(self, value: int) -> str:
        return format_duration(value)


@dataclass(frozen=True)
class Choice(FieldType):
    """One of the values of an enumeration of texts."""

    of: type[Enum]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts to choose from."""
        return tuple(one.value for one in self.of)

    def read(self, value: Any, field: str) -> Enum:
        if not isinstance(value, str) or value not in self.texts:
            raise BadValue(field, value, f"choose one of {', '.join(self.texts)}")
        return self.of(value)

    def write(self, value: Enum) -> str:
        return str(value.value)


@dataclass(frozen=True, eq=False)
class Group(FieldType, Generic[T]):
    """An object whose keys are fields of a dataclass; it has the class's defaults where they are left out."""

    of: Callable[..., T]
    types: Mapping[str, FieldType]

    def read(self, value: Any, field: str) -> T:
        body = read_object(value, field)
        for name in sorted(body.keys() - self.types.keys()):
            known = ", ".join(sorted(self.types))
            raise BadValue(f"{field}.{name}", body[name], f"this field is not known; known are {known}")
        return self.of(**{name: self.types[name].read(body[name], f"{field}.{name}") for name in body})

    def write(self, value: Any) -> dict[str, Any]:
        return {name: of.write(getattr(value, name)) for name, of in self.types.items()}


def read_list(value: Any, field: str) -> list[Any]:
    """A JSON list."""
    if not isinstance(value, list):
        raise BadValue(field, value, "give a JSON list")
    return value


def read_object(value: Any, field: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise BadValue(field, value, "give a JSON object")
    return value
