"""The shapes of explanations and of the audit log for the OpenAPI document."""

from typing import Any

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.schemas import JobId, Time
from scheduler_service.core.explain.explanation import Verdict


class BecauseOut(BaseModel):
    """One sentence, and the database row that supports it."""

    words: str
    row: dict[str, Any] | None


class ExplanationOut(BaseModel):
    """The reasons for the state of an occurrence or a run."""

    job_id: JobId | None
    run_id: str | None
    at: Time | None = Field(description="The occurrence; null for a run that no schedule created")
    verdict: Verdict
    text: str = Field(description="The sentences, one after another")
    because: list[BecauseOut]
    nearest_before: Time | None = Field(description="If the schedule has no occurrence then: the one before")
    nearest_after: Time | None


class AuditOut(BaseModel):
    """One change: its author, its kind, and the values before and after it."""

    id: int
    at: Time
    actor: str = Field(description="The token's name; loopback where no tokens are set")
    role: str
    action: str
    subject: str | None = Field(description="The id of the job or run; null for a change of many")
    before: Any
    after: Any


class AuditPage(BaseModel):
    """A page of the audit log, newest first."""

    items: list[AuditOut]
    next_cursor: str | None
