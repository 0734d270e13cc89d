"""Settings of signing in: tokens, an identity provider, the address that browsers use, how long a session lasts."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, format_duration
from scheduler_service.config.amounts import DurationText
from scheduler_service.config.group_roles import GroupRole, read_group_roles
from scheduler_service.config.tokens import ApiToken, read_tokens
from scheduler_service.config.variables import VariableSettings
from scheduler_service.runtime.addresses import is_loopback

_LONGEST: Final = 30 * DAY
_NEEDED_BY_ISSUER: Final = ("oidc_client_id", "public_url")
_NEEDS_ISSUER: Final = (
    "oidc_client_id", "oidc_client_secret", "oidc_client_secret_file", "oidc_roles", "oidc_default_role",
)  # fmt: skip


def _issuer(value: str) -> str:
    parts = urlsplit(value)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_safe or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("give the provider's https:// address, letter by letter as its discovery document has it")
    return value


def _scopes(value: str) -> str:
    if "openid" not in value.split():
        raise ValueError("openid must be among them, spaces between")
    return value


class SignInSettings(VariableSettings):
    """Who may use the API and the dashboard, and for how long a browser stays signed in."""

    api_tokens: Annotated[tuple[ApiToken, ...], NoDecode, BeforeValidator(read_tokens)] = Field((), repr=False)
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#@\s]+/?$")
    session_idle: DurationText = HOUR
    session_lifetime: DurationText = 12 * HOUR
    share_links: bool = False
    oidc_issuer: Annotated[str, AfterValidator(_issuer)] | None = None
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = Field(None, repr=False)
    oidc_client_secret_file: Path | None = Field(None, repr=False)
    oidc_scopes: Annotated[str, AfterValidator(_scopes)] = "openid email profile"
    oidc_groups_claim: str = Field("groups", min_length=1)
    oidc_roles: Annotated[tuple[GroupRole, ...], NoDecode, BeforeValidator(read_group_roles)] = ()
    oidc_default_role: Literal["viewer", "operator", "admin"] | None = None

    @property
    def asks_who(self) -> bool:
        """Whether anything but probes asks who calls."""
        return bool(self.api_tokens or self.oidc_issuer)

    @property
    def is_public_https(self) -> bool:
        """Whether browsers come by HTTPS, as the settings say."""
        return (self.public_url or "").startswith("https:")

    @property
    def oidc_rules(self) -> tuple[GroupRole, ...]:
        """The rules by which people get their rights, the first that fits decides."""
        default = self.oidc_default_role
        return (*self.oidc_roles, *(() if default is None else (GroupRole(None, default),)))

    @model_validator(mode="after")
    def _check_sessions(self) -> Self:
        for name in ("session_idle", "session_lifetime"):
            value = getattr(self, name)
            if not MINUTE <= value <= _LONGEST:
                allowed = f"give {format_duration(MINUTE)} to {format_duration(_LONGEST)}"
                raise BadValue(name, format_duration(value), allowed)
        return self

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.share_links and not self.asks_who:
            raise BadValue("share_links", "on", "set ITINERARY_API_TOKENS or ITINERARY_OIDC_ISSUER too")
        return self

    @model_validator(mode="after")
    def _check_oidc(self) -> Self:
        for name in _NEEDED_BY_ISSUER if self.oidc_issuer else ():
            if not getattr(self, name):
                raise BadValue(name, None, "set it too: ITINERARY_OIDC_ISSUER needs it")
        for name in () if self.oidc_issuer else _NEEDS_ISSUER:
            if getattr(self, name):
                raise BadValue(name, "...", "set ITINERARY_OIDC_ISSUER too")
        if self.oidc_issuer and not self.oidc_rules:
            raise BadValue(
                "oidc_roles", None, "give group:role, or set ITINERARY_OIDC_DEFAULT_ROLE: nobody could enter"
            )
        if self.oidc_client_secret and self.oidc_client_secret_file:
            raise BadValue("oidc_client_secret_file", "...", "give the secret or its file, not both")
        return self

    def read_oidc_secret(self) -> str | None:
        """Return the client's secret, from its file if one is named; None for a client without one."""
        if self.oidc_client_secret_file is None:
            return self.oidc_client_secret
        try:
            return self.oidc_client_secret_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            path = str(self.oidc_client_secret_file)
            raise BadValue("ITINERARY_OIDC_CLIENT_SECRET_FILE", path, f"give a readable file ({exc})") from exc
