"""deploy/compose.yaml: accepted by the specification's own reader, and what the program would make of its settings."""

import re
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose, parse_duration

from scheduler_service.api.http.auth import check_exposure
from scheduler_service.config.settings import PREFIX, Settings
from scheduler_service.core.notifications.topics import TOPICS
from tests.support.manifests import (
    COMMANDS,
    DEPLOY,
    documents,
    interpolated,
    is_pinned,
    read_env,
    settings_of,
)
from tests.support.webhook_receiver import SECRET

FILE = DEPLOY / "compose.yaml"
EXAMPLE = read_env(DEPLOY / "compose.env.example")
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "FLOWER_PASSWORD", "GRAFANA_PASSWORD")
FILLED = {**dict.fromkeys(SECRETS, "s3cret"), "ITINERARY_API_TOKENS": f"ops:admin:{'0' * 64}"}
OURS = ("migrate", "leader", "api", "worker", "flower")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file as compose reads it with a filled-in env file."""
    documents(FILE)  # no key is given twice
    read: dict[str, Any] = yaml.safe_load(interpolated(FILE.read_text(), FILLED))
    return read


def test_the_specification_accepts_it_and_everything_it_names_is_there(compose: dict[str, Any]) -> None:
    PyCompose.from_yaml(yaml.safe_dump(compose)).validate()
    for name, service in compose["services"].items():
        for other, condition in service.get("depends_on", {}).items():
            waited = compose["services"][other]
            if condition["condition"] == "service_healthy":
                assert "test" in waited["healthcheck"], (name, other)
            else:
                assert waited["restart"].startswith("on-failure"), (name, other)


@pytest.mark.parametrize("missing", [*SECRETS, "ITINERARY_API_TOKENS"])
def test_without_a_secret_it_does_not_start(missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        interpolated(FILE.read_text(), {**FILLED, missing: ""})


def test_the_example_names_every_variable_and_holds_no_secret() -> None:
    named = set(re.findall(r"\$\{(\w+)", FILE.read_text()))
    assert named == set(EXAMPLE) - {"COMPOSE_FILE"}
    assert not any(EXAMPLE[name] for name in FILLED)


def test_the_parts_start_with_settings_that_the_program_accepts(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OURS:
        service = compose["services"][name]
        assert service["command"][0] == name
        assert name in COMMANDS
        settings = settings_of(service["environment"], monkeypatch)
        check_exposure(settings)
        if name in ("leader", "api"):
            assert settings.database_url.startswith("postgresql://")
        assert settings.redis_url.startswith("redis://:s3cret@redis:")
    leader, api = (settings_of(compose["services"][n]["environment"], monkeypatch) for n in ("leader", "api"))
    assert leader.metrics_port == 9108
    assert "9108" in compose["services"]["leader"]["healthcheck"]["test"][-1]
    assert (api.api_host, len(api.api_tokens)) == ("0.0.0.0", 1)


def test_only_those_who_need_the_database_are_given_it(compose: dict[str, Any]) -> None:
    with_database = {n for n in OURS if "ITINERARY_DATABASE_URL" in compose["services"][n]["environment"]}
    assert with_database == {"migrate", "leader", "api"}


def test_two_leaders_and_several_workers_run(compose: dict[str, Any]) -> None:
    assert compose["services"]["leader"]["deploy"]["replicas"] == 2
    assert compose["services"]["worker"]["deploy"]["replicas"] >= 2


def test_redis_keeps_what_it_was_given(compose: dict[str, Any]) -> None:
    words = compose["services"]["redis"]["command"]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--maxmemory"]


def test_every_service_is_watched_pinned_and_restarted(compose: dict[str, Any]) -> None:
    unwatched = {n for n, s in compose["services"].items() if "test" not in s["healthcheck"]}
    assert unwatched == {"migrate", "worker"}
    for name, service in compose["services"].items():
        assert is_pinned(service["image"]), service["image"]
        assert service["restart"] in ("unless-stopped", "on-failure"), name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["logging"]["options"]["max-size"], name


def test_our_containers_have_no_rights_and_nothing_to_write(compose: dict[str, Any]) -> None:
    for name in OURS:
        service = compose["services"][name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]
        assert "privileged" not in service


def test_a_stopped_part_is_given_the_time_that_it_needs(compose: dict[str, Any]) -> None:
    grace = {
        n: parse_duration(s["stop_grace_period"]) for n, s in compose["services"].items() if "stop_grace_period" in s
    }
    assert grace["worker"] >= 600  # its longest task
    assert grace["leader"] >= 20  # what is in hand, its threads, the lease
    assert grace["api"] > 5  # open requests


def test_ports_are_published_on_loopback_unless_somebody_says_otherwise(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
    assert compose["networks"]["inside"]["internal"]
    for name in ("postgres", "redis", "leader", "migrate"):
        assert compose["services"][name]["networks"] == ["inside"]
        assert "ports" not in compose["services"][name]


def test_every_mounted_file_is_there(compose: dict[str, Any]) -> None:
    mounts = [v for s in compose["services"].values() for v in s.get("volumes", [])]
    for source in (mount.partition(":")[0] for mount in mounts):
        if source.startswith("."):
            assert (DEPLOY / source).exists(), source
        else:
            assert source in compose["volumes"]


def test_with_notifications_leader_and_api_are_told_whom_to_tell_and_the_leader_may_go_out(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = EXAMPLE["COMPOSE_FILE"].split(":")
    assert files[0] == FILE.name
    (beside,) = documents(DEPLOY / files[1])
    merged = {n: {**compose["services"][n], **service} for n, service in beside["services"].items()}
    PyCompose.from_yaml(yaml.safe_dump({**compose, "services": {**compose["services"], **merged}})).validate()
    assert {n: service["env_file"] for n, service in merged.items()} == {
        "leader": ["notify.env"],
        "api": ["notify.env"],
    }
    assert all("outside" in service["networks"] for service in merged.values())
    whole = read_env(DEPLOY / "notify.env.example")
    assert not whole["ITINERARY_NOTIFY_SECRET"]
    settings = settings_of({**whole, "ITINERARY_NOTIFY_SECRET": SECRET}, monkeypatch)
    assert settings.notify_topics == TOPICS
    assert {name.lower() for name in whole} == {
        f"{PREFIX.lower()}{name}" for name in Settings.model_fields if name.startswith("notify_") or name == "smtp_url"
    }
