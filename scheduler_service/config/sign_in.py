"""Settings of signing in: tokens, the address that browsers use, how long a session lasts."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, format_duration
from scheduler_service.config.amounts import DurationText
from scheduler_service.config.tokens import ApiToken, read_tokens

_LONGEST = 30 * DAY


class SignInSettings(BaseSettings):
    """Who may use the API and the dashboard, and for how long a browser stays signed in."""

    api_tokens: Annotated[tuple[ApiToken, ...], NoDecode, BeforeValidator(read_tokens)] = Field((), repr=False)
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#@\s]+/?$")
    session_idle: DurationText = HOUR
    session_lifetime: DurationText = 12 * HOUR

    @property
    def asks_who(self) -> bool:
        """Whether anything but probes asks who calls."""
        return bool(self.api_tokens)

    @property
    def is_public_https(self) -> bool:
        """Whether browsers come by HTTPS, as the settings say."""
        return (self.public_url or "").startswith("https:")

    @model_validator(mode="after")
    def _check_sessions(self) -> Self:
        for name in ("session_idle", "session_lifetime"):
            value = getattr(self, name)
            if not MINUTE <= value <= _LONGEST:
                allowed = f"give {format_duration(MINUTE)} to {format_duration(_LONGEST)}"
                raise BadValue(name, format_duration(value), allowed)
        return self
