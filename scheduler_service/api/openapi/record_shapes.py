"""The shapes of explanations and of the audit log for the OpenAPI document."""

from typing import Any

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.schemas import JobId, Time
from scheduler_service.core.explain.explanation import Verdict


class BecauseOut(BaseModel):
    """One sentence, and the row of the database that it rests on."""

    words: str
    row: dict[str, Any] | None


class ExplanationOut(BaseModel):
    """Why an occurrence or a run is what it is."""

    job_id: JobId | None
    run_id: str | None
    at: Time | None = Field(description="The occurrence; null for a run that no schedule made")
    verdict: Verdict
    text: str = Field(description="The sentences, one after another")
    because: list[BecauseOut]
    nearest_before: Time | None = Field(description="Where the schedule does not name the instant: the one before")
    nearest_after: Time | None


class AuditOut(BaseModel):
    """One change: by whom, what, and what was there before and after it."""

    id: int
    at: Time
    actor: str = Field(description="The token's name; loopback where no tokens are set")
    role: str
    action: str
    subject: str | None = Field(description="The job's or run's id; null where a change is of many")
    before: Any
    after: Any


class AuditPage(BaseModel):
    """A part of the audit log, newest first."""

    items: list[AuditOut]
    next_cursor: str | None
