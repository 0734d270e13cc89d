"""The shapes of zone rules and of what other ones change, for the OpenAPI document."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.schemas import JobId, Strict, Time

Version = Annotated[str, Field(max_length=50, description="The IANA version, such as `2026f`")]


class Files(Strict):
    """Zone files to compare with, as `itinerary zones diff` packs a folder or a wheel."""

    version: Version
    files: str = Field(description="Base64 of a zlib stream: JSON with `files` (base64) and `zones` (their numbers)")


class ZoneDiffIn(Strict):
    """Two sets of zone rules.

    They are those `in_force`, those `before` the last adoption, those `installed` on the API's host, or given files.
    """

    from_: Literal["in_force", "before", "installed"] | Files = Field("in_force", alias="from")
    to: Literal["in_force", "before", "installed"] | Files = "installed"
    days: int = Field(730, ge=1, le=3660, description="How far ahead to compare")
    limit: int = Field(1000, ge=1, le=10_000, description="How many jobs to list")


class AdoptedRules(BaseModel):
    """A set of zone rules that a leader adopted; it decides from `effective_from` on."""

    version: str
    digest: str
    source: str = Field(description="Where the leader's host had it from")
    holder: str
    adopted_at: Time
    effective_from: Time


class ZoneRules(BaseModel):
    """The zone rules of the installation, and of its hosts."""

    version: str = Field(description="IANA version of the rules in force")
    digest: str
    adopted: list[AdoptedRules] = Field(description="The newest first; none before the first leader")
    installed: str = Field(description="IANA version installed on the API's host")
    installed_digest: str
    installed_source: str
    difference: str | None = Field(description="How those on the API's host differ from those in force; else null")
    leader: str | None = Field(description="The version that the leader plans by; null if nobody leads")
    standby: str | None = Field(description="The version of a standby with others, and its holder; else null")


class ChangedZone(BaseModel):
    """A zone of jobs whose clocks the two sets show differently."""

    timezone: str
    first_at: Time


class ChangedJob(BaseModel):
    """A job whose coming times change; `before` is its first time that is no more, `after` its first new one."""

    job_id: JobId
    timezone: str
    before: Time | None
    after: Time | None


class ZoneDiffOut(BaseModel):
    """The changes from one set of zone rules to another, from now on."""

    from_: str = Field(alias="from", description="Their IANA version")
    to: str
    same: bool = Field(description="Whether both have the same files")
    start: Time
    end: Time
    zones: list[ChangedZone]
    jobs: list[ChangedJob] = Field(description="By id, at most `limit`")
    changed: int = Field(description="The number of jobs that change")
    compared: int
    unchecked: int = Field(description="Jobs that would have taken too long to compare")
