"""Patterns for texts in requests and answers, for the OpenAPI document: times, durations, names."""

from typing import Annotated

from pydantic import Field

_NUMBER = r"\d{1,9}(\.\d{1,6})?"
_SHORT = f"({_NUMBER}w)?({_NUMBER}d)?({_NUMBER}h)?({_NUMBER}m)?({_NUMBER}s)?({_NUMBER}ms)?"
_SECONDS = rf"{_NUMBER}S"
_MINUTES = rf"\d{{1,6}}M({_SECONDS})?"
_ISO = rf"P(\d{{1,6}}W)?(\d{{1,6}}D)?(T(\d{{1,6}}H({_MINUTES}|{_SECONDS})?|{_MINUTES}|{_SECONDS}))?"
_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d{2}|[1-9]\d{3})"
DATE = rf"{_YEAR}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?"
WALL = rf"{DATE}[Tt ]{CLOCK}"
_OFFSET = r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
TIME_PATTERN = rf"^{DATE}[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{{1,6}})?{_OFFSET}$"
DURATION_PATTERN = f"^({_SHORT}|{_ISO})$"
Duration = Annotated[
    str,
    Field(
        description="90s, 25m, 2h, 1d, 1h30m or ISO 8601 PT25M", examples=["90s"],
        min_length=2, max_length=40, pattern=DURATION_PATTERN,  # the length refuses the empty text and a mere P
    ),
]  # fmt: skip
Time = Annotated[
    str,
    Field(
        description="RFC 3339 with an offset", examples=["2026-12-01T01:00:00Z"],
        json_schema_extra={"format": "date-time", "pattern": TIME_PATTERN},
    ),
]  # fmt: skip
WallOrTime = Annotated[
    str,
    Field(
        description="RFC 3339, or a wall time in the schedule's zone", examples=["2026-12-01T01:00:00Z"], max_length=40,
        pattern=f"({TIME_PATTERN}|^{WALL}$)",
    ),
]  # fmt: skip
_PRINTED = r"[^\u0000-\u001f\u007f-\u00a0]"
_SEEN = r"[^\u0000-\u0020\u007f-\u00a0]"
STORABLE = r"^[^\u0000]*$"
Words = Annotated[str, Field(max_length=10_000, pattern=STORABLE)]
JobId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", examples=["billing.close"])]
Task = Annotated[
    str,
    Field(
        pattern=rf"^{_SEEN}({_PRINTED}{{0,253}}{_SEEN})?$", description="As Celery knows it, in printable characters",
        examples=["billing.close_month"],
    ),
]  # fmt: skip
Queue = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$", examples=["default"])]
Source = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._:/@-]{0,127})?$",
        description="The owner of the jobs; empty: none, and nothing is pruned",
        examples=["shop"],
    ),
]
Key = Annotated[str, Field(min_length=1, max_length=255, pattern=rf"^{_PRINTED}+$", description="Printable characters")]
Zone = Annotated[
    str, Field(description="IANA name", examples=["Europe/Berlin"], max_length=100, pattern=r"^[A-Za-z0-9_+./-]+$")
]
