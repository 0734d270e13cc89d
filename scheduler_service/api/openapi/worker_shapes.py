"""The shapes of workers, for the OpenAPI document."""

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.patterns import Time


class Worker(BaseModel):
    """A worker that sends heartbeats to the leader."""

    name: str
    alive: bool
    last_seen_at: Time
    concurrency: int
    running: list[str]
    queues: list[str]
    version: str | None = Field(description="Of celery-itinerary; null of an older worker")
    since: Time | None = Field(description="When it started, by its host's clock")


class Workers(BaseModel):
    """The list of workers."""

    items: list[Worker]


class KnownTasks(BaseModel):
    """The tasks that living workers say they know."""

    items: list[str] = Field(description="Sorted; 5,000 at most")
    complete: bool = Field(description="No living worker knows another one")
