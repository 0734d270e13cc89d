"""Settings: read once, checked by name, no secret shown."""

import base64
import re
from pathlib import Path

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import DAY, MILLISECOND, MINUTE, SECOND, parse_duration
from scheduler_service.config.notify import read_smtp_url
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.core.notifications.notices import TOPICS, Topic
from scheduler_service.loops.lease_renewer import renewed_every
from scheduler_service.runtime.addresses import shown_url
from tests.support.processes import MANUAL

DIGEST = "ab" * 32
SIGNING = "whsec_" + base64.b64encode(b"x" * 32).decode()


def refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> str:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadValues) as caught:
        load_settings()
    return str(caught.value)


def test_the_defaults_are_those_of_the_design(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.pre_schedule_interval == 10 * SECOND
    assert settings.index_rebuild_interval == MINUTE
    assert settings.lookahead_window == 10 * MINUTE
    assert settings.grace_period == settings.lost_after == settings.redispatch_after == 30 * SECOND
    assert settings.loop_interval == SECOND
    assert (settings.lease_ttl, renewed_every(settings.lease_ttl)) == (5 * SECOND, 1500 * MILLISECOND)
    assert (settings.inbox_buffer_size, settings.publish_window, settings.publish_ahead) == (1000, "auto", 2 * SECOND)
    assert settings.retention == 30 * DAY
    assert (settings.api_host, settings.api_port, settings.flower_port) == ("127.0.0.1", 8080, 5555)
    assert settings.database_url == f"sqlite:///{tmp_path}/.itinerary/itinerary.db"
    assert settings.redis_url == settings.broker_url == "redis://127.0.0.1:6379/0"
    assert settings.advice() == ()


def test_the_database_lies_in_the_data_folder_and_the_broker_is_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_DATA_DIR", "/var/lib/x")
    monkeypatch.setenv("ITINERARY_REDIS_URL", "redis://h/3")
    settings = load_settings()
    assert settings.database_url == "sqlite:////var/lib/x/itinerary.db"
    assert settings.broker_url == "redis://h/3"


def test_a_variable_s_letters_may_be_small_and_an_empty_one_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("itinerary_api_port", "3333")
    monkeypatch.setenv("ITINERARY_FLOWER_PORT", "")
    settings = load_settings()
    assert (settings.api_port, settings.flower_port) == (3333, 5555)


def test_the_environment_goes_before_the_file_and_the_command_line_before_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "itinerary.toml"
    file.write_text('loop_interval = "3s"\napi_port = 1111\nflower_port = 2222\ngrace_period = "40s"\n')
    monkeypatch.setenv("ITINERARY_CONFIG", str(file))
    monkeypatch.setenv("ITINERARY_API_PORT", "3333")
    monkeypatch.setenv("ITINERARY_FLOWER_PORT", "4444")
    settings = load_settings(flower_port=5555, api_host=None)
    assert (settings.loop_interval, settings.grace_period) == (3 * SECOND, 40 * SECOND)
    assert (settings.api_port, settings.flower_port) == (3333, 5555)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("ITINERARY_LOOP_INTERVAL", "abc", "90s"),
        ("ITINERARY_LOOP_INTERVAL", "1ms", "10ms or more"),
        ("ITINERARY_API_PORT", "65536", "65535"),
        ("ITINERARY_LOG_LEVEL", "loud", "'debug'"),
        ("ITINERARY_DATABASE_URL", "mysql://u:secret@h/d", "postgresql://"),
        ("ITINERARY_REDIS_URL", "memory://secret", "redis://"),
        ("ITINERARY_BROKER_URL", "me:secret@rabbit", "with its scheme"),
        ("ITINERARY_API_TOKENS", f"a:boss:{DIGEST}", "name:role:sha256"),
        ("ITINERARY_API_TOKENS", "a:viewer:secret", "name:role:sha256"),
        ("ITINERARY_INDEX_REBUILD_INTERVAL", "10m", "shorter than lookahead_window"),
        ("ITINERARY_RETENTION", "23h", "1d or more"),
        ("ITINERARY_PUBLISH_WINDOW", "0", "give auto, or a number of runs from 1 to 1,000,000"),
        ("ITINERARY_PUBLISH_WINDOW", "many", "give auto, or a number"),
        ("ITINERARY_PUBLISH_AHEAD", "2m", "1m or less"),
        ("ITINERARY_API_RATE_LIMIT", "-1", "greater than or equal to 0"),
        ("ITINERARY_NOTIFY_WEBHOOKS", "https://hooks.example/secret", "set ITINERARY_NOTIFY_SECRET too"),
        ("ITINERARY_NOTIFY_WEBHOOKS", "ftp://hooks.example/secret", "http:// or https://"),
        ("ITINERARY_NOTIFY_WEBHOOKS", "https://u:secret@hooks.example/", "user or password"),
        ("ITINERARY_NOTIFY_CHANNELS", "slack://secret", "give JSON such as"),
        ("ITINERARY_NOTIFY_CHANNELS", '{"name": "a"}', "give a list such as"),
        ("ITINERARY_NOTIFY_CHANNELS", '["slack://secret"]', "each channel is an object"),
        ("ITINERARY_NOTIFY_CHANNELS", '[{"urls": ["slack://secret"]}]', "each channel needs a name"),
        ("ITINERARY_NOTIFY_CHANNELS", '[{"name": "a"}]', "urls of channel a: give at least one"),
        ("ITINERARY_NOTIFY_CHANNELS", '[{"name": "a", "urls": ["secret"]}]', "begins with a scheme"),
        ("ITINERARY_NOTIFY_CHANNELS", '[{"name": "a", "urls": ["slack://s"], "tag": "b"}]', "no field 'tag'; known"),
        ("ITINERARY_NOTIFY_CHANNELS", '[{"name": "a", "urls": ["slack://s"], "tags": "b"}]', "tags of channel a: give"),
        ("ITINERARY_NOTIFY_CHANNELS", '[{"name": "a", "urls": ["x://s"], "events": ["x"]}]', "events of channel a: kn"),
        (
            "ITINERARY_NOTIFY_CHANNELS",
            '[{"name": "a", "urls": ["x://s"]}, {"name": "a", "urls": ["x://s"]}]',
            "two channels have the same name",
        ),
        ("ITINERARY_NOTIFY_SECRET", "secret", "openssl rand -base64 32"),
        ("ITINERARY_NOTIFY_SECRET", "whsec_c2VjcmV0", "24 bytes or more"),
        ("ITINERARY_NOTIFY_EMAIL_TO", "ops@example.org", "set ITINERARY_SMTP_URL too"),
        ("ITINERARY_NOTIFY_EMAIL_TO", "Ops <ops@example.org>", "plain addresses"),
        ("ITINERARY_NOTIFY_EMAIL_FROM", "x@y\nBcc: z@y", "plain addresses"),
        ("ITINERARY_SMTP_URL", "smtps://mail.example", "set ITINERARY_NOTIFY_EMAIL_TO too"),
        ("ITINERARY_SMTP_URL", "smtp://me:secret@mail.example", "in the clear"),
        ("ITINERARY_SMTP_URL", "https://me:secret@mail.example", "smtp+starttls://"),
        ("ITINERARY_NOTIFY_EVENTS", "run.failed,run.fialed", "run.failed, run.late"),
        ("ITINERARY_NOTIFY_QUIET", "0s", "1s or more"),
        ("ITINERARY_LOP_INTERVAL", "1s", "did you mean ITINERARY_LOOP_INTERVAL"),
        ("ITINERARY_", "1s", "no such setting"),
    ],
)
def test_a_wrong_or_unknown_variable_is_refused_by_name_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    said = refused(monkeypatch, name, value)
    assert said.startswith(f"{name}: ")
    assert allowed in said
    assert "secret" not in said


def test_a_wrong_data_folder_is_one_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_API_PORT", "x")
    monkeypatch.setenv("ITINERARY_LEASE_TTL", "x")
    with pytest.raises(BadValues) as caught:
        load_settings()
    assert {error.field for error in caught.value.errors} == {"ITINERARY_API_PORT", "ITINERARY_LEASE_TTL"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('lop_interval = "1s"', "did you mean loop_interval"),
        ("loop_interval = 1", "loop_interval in "),
        ("[table]", "no such setting"),
        ("not toml", "readable TOML"),
    ],
)
def test_a_wrong_settings_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(BadValues, match=said):
        load_settings(file)


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadValues, match=r"ITINERARY_CONFIG: .*none\.toml"):
        load_settings(tmp_path / "none.toml")


def test_what_is_allowed_but_hardly_wanted_is_said() -> None:
    settings = load_settings(grace_period="1s", pre_schedule_interval="500ms")
    assert len(settings.advice()) == 2


def test_no_secret_is_shown() -> None:
    settings = load_settings(
        database_url="postgresql://u:secret1@h/d", redis_url="redis://:secret2@h/0", flower_password="secret3",
        api_tokens=f"me:admin:{DIGEST}", notify_webhooks="https://hooks.example/secret4", notify_secret=SIGNING,
        notify_email_to="ops@example.org", smtp_url="smtps://me:secret5@mail.example",
    )  # fmt: skip
    shown = repr(settings) + str(settings)
    assert "secret" not in shown
    assert DIGEST not in shown + repr(settings.api_tokens)
    assert SIGNING not in shown
    assert shown_url(settings.database_url) == "postgresql://u:***@h/d"
    assert shown_url(settings.redis_url) == "redis://:***@h/0"
    assert shown_url("postgresql://h/d?user=u&password=secret6&sslpassword=secret7") == (
        "postgresql://h/d?user=u&password=***&sslpassword=***"
    )


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().api_port = 1


def test_variables_of_other_parts_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ITINERARY_HTTP_ALLOW_PRIVATE", "ITINERARY_API_URL", "ITINERARY_API_TOKEN", "ITINERARY_TEST_BROWSER"):
        monkeypatch.setenv(name, "x")
    load_settings()


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_FLOWER_PASSWORD", "")
    monkeypatch.setenv("ITINERARY_API_TOKENS", "")
    assert load_settings().flower_password is None
    assert load_settings().api_tokens == ()


def test_the_manual_names_every_setting_with_its_default() -> None:
    manual = (MANUAL / "settings.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]+?)`? \|", manual, re.MULTILINE))
    assert set(rows) == {name.upper() for name in Settings.model_fields}
    for name, shown in rows.items():
        default = Settings.model_fields[name.lower()].default
        if default in (None, (), ""):
            assert shown == "none", name
        elif isinstance(default, str):
            assert shown == default, name
        elif isinstance(default, int) and shown != str(default).lower():
            assert parse_duration(shown) == default, name


def test_who_is_told_of_what_is_read_from_lists() -> None:
    settings = load_settings(
        notify_webhooks="https://a.example/x, http://b.example:8080", notify_secret=SIGNING,
        notify_email_to="ops@example.org,me@example.org", smtp_url="smtp+starttls://me:p%40ss@mail.example",
        notify_events="run.failed, leader.lost",
    )  # fmt: skip
    assert settings.notify_webhooks == ("https://a.example/x", "http://b.example:8080")
    assert settings.notify_email_to == ("ops@example.org", "me@example.org")
    assert settings.notify_topics == {Topic.RUN_FAILED, Topic.LEADER_LOST}
    server = read_smtp_url(str(settings.smtp_url))
    assert (server.security, server.host, server.port, server.user, server.password) == (
        "smtp+starttls", "mail.example", 587, "me", "p@ss",
    )  # fmt: skip
    assert "p@ss" not in repr(server)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("notify_webhooks", "https://a.example/hunter2/a b", "printable ASCII"),
        ("notify_webhooks", "https://a.example/hunter2/\xe4", "printable ASCII"),
        ("smtp_url", "smtps://me:hunter2\xe4@mail.example", "printable ASCII"),
        ("smtp_url", "smtps://me:hunter2%C3%A4@mail.example", "password must be printable ASCII"),
        ("smtp_url", "smtps://m%C3%A4:hunter2@mail.example", "user must be printable ASCII"),
    ],
)
def test_what_no_header_or_login_could_hold_is_refused_without_being_shown(field: str, value: str, said: str) -> None:
    with pytest.raises(BadValues, match=said) as refused:
        load_settings(notify_secret=SIGNING, notify_email_to="ops@example.org", **{field: value})
    assert field.upper() in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_without_anybody_to_tell_nothing_is_told() -> None:
    assert load_settings().notify_topics == frozenset()
    assert load_settings().notify_events == TOPICS


def test_lists_may_be_lists_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        f'notify_webhooks = ["https://a.example/"]\nnotify_secret = "{SIGNING}"\nnotify_events = ["run.late"]\n'
    )
    assert load_settings(file).notify_topics == {Topic.RUN_LATE}
