"""Fills models of the OpenAPI document from `core.contract.job_table`: each field with its type and sentence."""

from collections.abc import Callable, Container, Iterable
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Field, create_model

from itinerary.protocol.field_types import Choice, FieldType, Flag, Group, Number, Span, Time, Whole
from itinerary.protocol.run_fields import RUN_FIELDS
from scheduler_service.api.openapi import patterns
from scheduler_service.core.contract.fields import Tags, Text
from scheduler_service.core.contract.job_json import DEFAULTS
from scheduler_service.core.contract.job_table import GROUPS, JOB_FIELDS, JOB_ID, JOB_TYPES, JobField

M = TypeVar("M", bound=BaseModel)
NAMED: Final[dict[FieldType, Any]] = {
    JOB_ID: patterns.JobId,
    RUN_FIELDS["task"]: patterns.Task,
    RUN_FIELDS["queue"]: patterns.Queue,
    RUN_FIELDS["args"]: list[Any],
    RUN_FIELDS["kwargs"]: dict[str, Any],
    RUN_FIELDS["headers"]: dict[str, Any],
}
"""The types that are no more than a name here; the models of schedules and groups are added where they are written."""


def json_type(of: FieldType) -> Any:
    """Return the type as pydantic has it."""
    match of:
        case Text(longest):
            return Annotated[str, Field(max_length=longest, pattern=patterns.STORABLE)]
        case Tags(most, longest):
            tag = Annotated[str, Field(min_length=1, max_length=longest, pattern=patterns.STORABLE)]
            return Annotated[list[tag], Field(max_length=most)]
        case Whole(low, high):
            return Annotated[int, Field(ge=low, le=high)]
        case Number(low, high):
            return Annotated[float, Field(ge=low, le=high)]
        case Flag():
            return bool
        case Time():
            return patterns.Time
        case Span():
            return patterns.Duration
        case Choice():
            return Annotated[str, Field(json_schema_extra={"enum": list(of.texts)})]
        case _:
            return NAMED[of]


def requested(*required: str, only: Container[str] = JOB_TYPES) -> Callable[[type[M]], type[M]]:
    """Add the fields of a request; those that are not required may be null."""
    rows = [row for row in JOB_FIELDS if row.name in required or row.name in only]
    return _added(rows, lambda row, of: (of, ...) if row.name in required else (of | None, None))


def stored(model: type[M]) -> type[M]:
    """Add all fields of a stored job."""
    return _added(JOB_FIELDS, lambda row, of: (of | None if DEFAULTS.get(row.name, 0) is None else of, ...))(model)


def group(name: str, of: Group[Any]) -> Callable[[type[M]], type[M]]:
    """Add the fields of a group, with their defaults, and make the model its type."""

    def complete(model: type[M]) -> type[M]:
        completed = _added(GROUPS[name], lambda row, of: (of, DEFAULTS[name][row.name]))(model)
        NAMED[of] = completed
        return completed

    return complete


def _added(rows: Iterable[JobField], typed: Callable[[JobField, Any], tuple[Any, Any]]) -> Callable[[type[M]], type[M]]:
    """Add the rows that the model does not have itself, `typed` with type and default, and their sentences."""

    def complete(model: type[M]) -> type[M]:
        fields: dict[str, Any] = {}
        for row in rows:
            if row.name not in model.model_fields:
                of, default = typed(row, json_type(row.type))
                # The sentence would replace that of the type.
                of_type = [each.description for each in getattr(of, "__metadata__", ()) if each.description]
                fields[row.name] = (of, Field(default, description=": ".join([row.sentence, *of_type])))
        return create_model(
            model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **fields
        )

    return complete
