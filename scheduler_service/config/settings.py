"""The settings: one typed, frozen model, from ITINERARY_* variables or a TOML file.

Promises: a wrong or unknown name is refused at start, by name, with the allowed values; no secret is shown by `repr` or
an error. The environment overrides the file; the command line overrides both. Never reads any other source and never
changes once loaded.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    Duration,
    format_duration,
)
from itinerary.protocol.keys import PREFIX_PATTERN
from itinerary.protocol.redaction import DEFAULT_KEYS
from itinerary.protocol.sentinel_urls import is_sentinel, read_sentinel_url
from itinerary.protocol.service_urls import in_schema, read_service_url
from scheduler_service.config.amounts import DurationText, PublishWindow
from scheduler_service.config.channels import Channels
from scheduler_service.config.notify import Address, Addresses, Names, Secret, SmtpUrl, Topics, Webhooks
from scheduler_service.config.sign_in import SignInSettings
from scheduler_service.config.tokens import ApiToken as ApiToken
from scheduler_service.config.tokens import Role as Role
from scheduler_service.core.notifications.topics import TOPICS, Topic

PREFIX: Final = "ITINERARY_"
OTHER_NAMES: Final = frozenset(
    {
        "CONFIG", "HTTP_ALLOW_PRIVATE", "API_URL", "API_TOKEN", "TEST_BROWSER", "SECRET_ENV_NAMES", "SECRET_FOLDER",
    }
)  # fmt: skip
"""The settings file's name, and variables of the worker's HTTP task, the command line's client and the tests."""


def _folder(value: Any) -> Any:
    if isinstance(value, str | Path) and str(value):
        value = Path(value).expanduser().absolute()
        if "?" in str(value) or not str(value).isprintable():
            raise ValueError(f"the path {str(value)!r} has a ? or control characters; give another folder")
    return value


_NAMES: Final = {"mysql": "MySQL", "mariadb": "MariaDB", "oracle": "Oracle", "redis-cluster": "Redis Cluster"}


def _url(*schemes: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            found = re.match(r"[a-z][a-z0-9+.-]*(?=://)", str(value))
            refused = f"{_NAMES.get(found[0], found[0])} is not supported; " if found else ""
            raise ValueError(f"{refused}give an address that begins with {' or '.join(f'{s}://' for s in schemes)}")
        return _encoded(value)

    return BeforeValidator(check)


def _encoded(url: str) -> str:
    """Encode the URL so that every library reads it alike, whatever characters its password has."""
    try:
        if is_sentinel(url):
            return read_sentinel_url(url, "").text
        # A SQLite URL holds a path: no password, and any characters.
        return url if url.startswith("sqlite") else read_service_url(url, "").text
    except BadValue as exc:
        raise ValueError(exc.allowed) from None


def _broker(value: Any) -> Any:
    """Require a scheme: Celery takes an address without one for the host of an AMQP broker."""
    if not isinstance(value, str) or not re.match(r"[a-z][a-z0-9+.-]*://", value):
        raise ValueError("give an address with its scheme, such as redis://host:6379/0 or amqp://user:password@host//")
    several = re.split(r";(?=[a-z][a-z0-9+.-]*://)", value)
    return ";".join(map(_encoded, several)) if re.match(r"rediss?:|amqps?:|sentinel:", value) else value


Port = Annotated[int, Field(ge=1, le=65535)]
_Lower: Final = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
_POSTGRES: Final = ("postgresql", "postgresql+psycopg", "postgres")
DatabaseUrl = Annotated[str, _url("sqlite", *_POSTGRES), Field(repr=False)]
RedisUrl = Annotated[str, _url("redis", "rediss", "unix", "redis+socket", "sentinel"), Field(repr=False)]
BrokerUrl = Annotated[str, BeforeValidator(_broker), Field(repr=False)]


class Settings(SignInSettings):
    """Every setting of every part; durations are texts outside and microseconds here."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        hide_input_in_errors=True,
        validate_default=False,
    )

    data_dir: Annotated[Path, BeforeValidator(_folder)] = Field(Path(".itinerary"), validate_default=True)
    database_url: DatabaseUrl = Field(default_factory=lambda given: f"sqlite:///{given['data_dir']}/itinerary.db")
    database_direct_url: Annotated[str, _url(*_POSTGRES)] | None = Field(None, repr=False)
    database_schema: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")
    redis_url: RedisUrl = "redis://127.0.0.1:6379/0"
    broker_url: BrokerUrl = Field(default_factory=lambda given: str(given["redis_url"]))
    broker_key_prefix: str | None = Field(None, pattern=PREFIX_PATTERN)
    key_prefix: str = Field("", pattern=PREFIX_PATTERN)

    pre_schedule_interval: DurationText = 10 * SECOND
    index_rebuild_interval: DurationText = MINUTE
    lookahead_window: DurationText = 10 * MINUTE
    grace_period: DurationText = 30 * SECOND
    loop_interval: DurationText = SECOND
    inbox_buffer_size: int = Field(1000, ge=1, le=1_000_000)
    lease_ttl: DurationText = 5 * SECOND
    lost_after: DurationText = 30 * SECOND
    redispatch_after: DurationText = 30 * SECOND
    publish_window: PublishWindow = "auto"
    publish_ahead: DurationText = 2 * SECOND
    retention: DurationText = 30 * DAY
    stop_timeout: DurationText = 30 * SECOND

    api_host: str = Field("127.0.0.1", min_length=1)
    api_port: Port = 8080
    api_receive_timeout: DurationText = 30 * SECOND
    api_rate_limit: int | None = Field(None, ge=0, le=1_000_000)
    redact_keys: Names = Field(DEFAULT_KEYS, repr=False)
    flower_host: str = Field("127.0.0.1", min_length=1)
    flower_port: Port = 5555
    flower_password: str | None = Field(None, repr=False, pattern="^[^,]+$")
    flower_max_tasks: int = Field(10_000, ge=1, le=1_000_000)
    flower_url: str | None = Field(None, pattern=r"^https?://")
    trace_url: str | None = Field(None, pattern=r"^https?://.*\{trace_id\}")
    metrics_host: str = Field("127.0.0.1", min_length=1)
    metrics_port: Port | None = None
    notify_webhooks: Webhooks = Field((), repr=False)
    notify_secret: Secret | None = Field(None, repr=False)
    notify_email_to: Addresses = ()
    notify_email_from: Address | None = None
    smtp_url: SmtpUrl | None = Field(None, repr=False)
    notify_channels: Channels = Field((), repr=False)
    notify_events: Topics = TOPICS
    notify_allow_private: bool = False
    notify_late_after: DurationText = 5 * MINUTE
    notify_long_after: DurationText = HOUR
    notify_quiet: DurationText = HOUR
    log_format: Annotated[Literal["auto", "console", "json"], _Lower] = "auto"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _Lower] = "info"

    @property
    def leader_database_url(self) -> str:
        """The database URL of leaders and migrations, which need connections without a pooler."""
        return self.database_direct_url or self.database_url

    @property
    def notify_topics(self) -> frozenset[Topic]:
        """The topics of notifications: none if there is no target."""
        anybody = self.notify_webhooks or self.notify_email_to or self.notify_channels
        return self.notify_events if anybody else frozenset()

    @model_validator(mode="before")
    @classmethod
    def _put_schema_into_urls(cls, values: dict[str, Any]) -> dict[str, Any]:
        schema = values.get("database_schema")
        if not isinstance(schema, str):
            return values
        if not str(values.get("database_url", "sqlite")).startswith(_POSTGRES):
            raise BadValue("database_schema", schema, "only PostgreSQL has schemas; set ITINERARY_DATABASE_URL too")
        named = {name: values[name] for name in ("database_url", "database_direct_url") if values.get(name)}
        return values | {name: in_schema(url, schema) for name, url in named.items()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise BadValue(name, format_duration(getattr(self, name)), f"give {format_duration(least)} or more")
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise BadValue(name, format_duration(getattr(self, name)), f"give {format_duration(most)} or less")
        if self.index_rebuild_interval >= self.lookahead_window:
            shown = format_duration(self.index_rebuild_interval)
            raise BadValue("index_rebuild_interval", shown, "it must be shorter than lookahead_window")
        for name, needed in _TOGETHER.items():
            if getattr(self, name) and not getattr(self, needed):
                raise BadValue(name, "...", f"set {PREFIX}{needed.upper()} too")
        return self

    def advice(self) -> tuple[str, ...]:
        """Return advice about allowed but unwise values, a sentence each."""
        found = []
        if self.grace_period <= self.loop_interval:
            found.append("grace_period should be longer than loop_interval")
        if self.pre_schedule_interval < self.loop_interval:
            found.append("pre_schedule_interval should not be shorter than loop_interval")
        return tuple(found)


_TOGETHER: Final = {"notify_webhooks": "notify_secret", "notify_email_to": "smtp_url", "smtp_url": "notify_email_to"}
# While a dead leader's lease lasts, no leader plans anything.
_MOST: Final[dict[str, Duration]] = {"lease_ttl": 30 * SECOND, "publish_ahead": MINUTE}
_LEAST: Final[dict[str, Duration]] = {
    "pre_schedule_interval": 100 * MILLISECOND,
    "index_rebuild_interval": SECOND,
    "lookahead_window": 2 * SECOND,
    "grace_period": 100 * MILLISECOND,
    "loop_interval": 10 * MILLISECOND,
    "publish_ahead": 100 * MILLISECOND,
    "lease_ttl": SECOND,
    "lost_after": SECOND,
    "redispatch_after": SECOND,
    "api_receive_timeout": 100 * MILLISECOND,
    "notify_late_after": SECOND,
    "notify_long_after": SECOND,
    "notify_quiet": SECOND,
    # An idempotency key is stored on its run's row, and must be known for a day.
    "retention": DAY,
}


def load_settings(config: Path | str | None = None, **given: Any) -> Settings:
    """Load the settings of this process; BadValues names each wrong or unknown one and the allowed values.

    `config` is a TOML file (default: the one that ITINERARY_CONFIG names); `given` holds the command line's values,
    None for absent ones.
    """
    _refuse_unknown_variables(os.environ)
    path = config or os.environ.get(f"{PREFIX}CONFIG")
    in_file = _read_file(Path(path)) if path else {}
    unset = {key: value for key, value in in_file.items() if not os.environ.get(f"{PREFIX}{key.upper()}")}
    wanted = {key: value for key, value in given.items() if value is not None}
    try:
        return Settings(**{**unset, **wanted})
    except ValidationError as exc:
        raise BadValues(_errors(exc, {**dict.fromkeys(unset, str(path)), **dict.fromkeys(wanted, "")})) from None
    except BadValue as exc:
        raise BadValues([BadValue(f"{PREFIX}{exc.field.upper()}", exc.value, exc.allowed)]) from None


def api_tokens_text(environ: Mapping[str, str]) -> str:
    """Return the API's tokens as they were given, by environment or settings file, separated by commas."""
    given = environ.get(f"{PREFIX}API_TOKENS")
    path = environ.get(f"{PREFIX}CONFIG")
    in_file = _read_file(Path(path)).get("api_tokens", ()) if path and not given else ()
    return given or (in_file if isinstance(in_file, str) else ",".join(map(str, in_file)))


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = {name.upper() for name in Settings.model_fields} | OTHER_NAMES
    unknown = [name for name in sorted(environ) if name.upper().startswith(PREFIX)]
    errors = [_unknown(name, PREFIX, known) for name in unknown if name.upper().removeprefix(PREFIX) not in known]
    if errors:
        raise BadValues(errors)


def _unknown(name: str, prefix: str, known: set[str]) -> BadValue:
    near = get_close_matches(name.upper().removeprefix(PREFIX), [k.upper() for k in known], 1)
    hint = f"did you mean {prefix}{near[0] if prefix else near[0].lower()}" if near else "remove it"
    names = ", ".join(sorted(name.upper() for name in known))
    return BadValue(name, "...", f"there is no such setting, {hint}; known are {names}")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise BadValues([BadValue(f"{PREFIX}CONFIG", str(path), f"give a readable TOML file ({exc})")]) from exc
    known = set(Settings.model_fields)
    errors = [_unknown(name, "", known) for name in sorted(set(values) - known)]
    if errors:
        raise BadValues(errors)
    return values


def _errors(exc: ValidationError, sources: Mapping[str, str]) -> list[BadValue]:
    found = []
    for error in exc.errors(include_url=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        if error["type"] != "default_factory_not_called":  # a consequence of the error in its source
            label = f"{name} in {sources[name]}" if sources.get(name) else f"{PREFIX}{name.upper()}"
            field_of = Settings.model_fields.get(name)
            shown = error["input"] if field_of is not None and field_of.repr else "..."
            found.append(BadValue(label, shown, error["msg"].removeprefix("Value error, ")))
    return found
