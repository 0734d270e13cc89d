"""What `itinerary up` plans: ports, the embedded Redis, the environment of its parts, and one `up` a folder."""

import hashlib
import os
import re
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.local.demo import demo_jobs, with_demo_token
from scheduler_service.local.up import address_table, child_env, create_plan, parts_of
from scheduler_service.runtime.addresses import Ports, http_url, is_free
from scheduler_service.runtime.run_file import AlreadyUp, only_one, read_run, record_run, write_run
from tests.support.processes import Child, free_port, project_env, wait_until
from tests.support.redis_server import RedisServer


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ITINERARY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as held:
        yield held


def test_a_usual_port_that_is_taken_gives_way_to_another_and_is_told(tmp_path: Path, ports: Ports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        settings = Settings.model_construct(
            **{**Settings(data_dir=tmp_path).__dict__, "api_port": taken}, _fields_set={"data_dir"}
        )
        plan = create_plan(settings, {}, ports)
    assert plan.api_port != taken
    assert f"port {taken} is in use: the API is on {plan.api_port}" in plan.notes


def test_a_port_that_was_asked_for_and_is_taken_is_refused_by_name(tmp_path: Path, ports: Ports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        with pytest.raises(BadValue, match=rf"ITINERARY_API_PORT: {taken} .*in use"):
            create_plan(Settings(data_dir=tmp_path, api_port=taken), {}, ports)


def test_the_api_and_flower_never_share_a_port(tmp_path: Path, ports: Ports) -> None:
    port = free_port()
    with pytest.raises(BadValue, match="ITINERARY_FLOWER_PORT"):
        create_plan(Settings(data_dir=tmp_path, api_port=port, flower_port=port), {}, ports)


def test_redis_keeps_its_port_from_one_start_to_the_next(tmp_path: Path, ports: Ports) -> None:
    port = free_port()
    plan = create_plan(Settings(data_dir=tmp_path), {"redis_port": port}, ports)
    assert plan.redis_url.endswith(f"@127.0.0.1:{port}/0")


def test_a_redis_that_is_named_is_used_and_none_is_started(tmp_path: Path, ports: Ports) -> None:
    plan = create_plan(Settings(data_dir=tmp_path, redis_url="redis://elsewhere:6379/3"), {}, ports)
    assert plan.redis_url == "redis://elsewhere:6379/3"
    assert [part.name for part in parts_of(plan, demo=False)] == ["leader", "worker", "api", "flower"]


def test_the_parts_start_in_the_order_of_what_they_need(tmp_path: Path, ports: Ports) -> None:
    plan = create_plan(Settings(data_dir=tmp_path), {}, ports)
    names = [part.name for part in parts_of(plan, demo=True)]
    assert names == ["redis", "leader", "worker", "api", "flower", "demo"]


def test_the_parts_are_given_what_was_chosen(tmp_path: Path, ports: Ports) -> None:
    plan = create_plan(Settings(data_dir=tmp_path), {}, ports)
    env = child_env(plan, {"ITINERARY_API_PORT": "1", "PATH": "/bin"})
    assert env["ITINERARY_API_PORT"] == str(plan.api_port)
    assert env["ITINERARY_REDIS_URL"] == plan.redis_url
    assert env["ITINERARY_DATABASE_URL"] == f"sqlite:///{tmp_path}/itinerary.db"
    assert env["PATH"] == "/bin"


def test_tasks_know_the_address_of_the_api_unless_they_are_given_another(
    tmp_path: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ITINERARY_API_URL", raising=False)
    plan = create_plan(Settings(data_dir=tmp_path), {}, ports)
    (env,) = [part.env for part in parts_of(plan, demo=False) if part.name == "worker"]
    assert env["ITINERARY_API_URL"] == plan.api_url
    monkeypatch.setenv("ITINERARY_API_URL", "https://elsewhere")
    (env,) = [part.env for part in parts_of(plan, demo=False) if part.name == "worker"]
    assert env["ITINERARY_API_URL"] == "https://elsewhere"


def test_two_servers_never_keep_one_folder(tmp_path: Path, ports: Ports) -> None:
    plan = create_plan(Settings(data_dir=tmp_path), {}, ports)
    assert plan.redis is not None
    with (
        RedisServer(tmp_path, plan.redis.binary) as left_over,
        pytest.raises(ItineraryError, match=f"stop what listens on port {left_over.port}"),
    ):
        create_plan(Settings(data_dir=tmp_path), {"redis_port": left_over.port}, ports)


def test_a_second_up_on_the_same_folder_is_refused_and_names_the_first(tmp_path: Path) -> None:
    hold = "import sys, signal; from scheduler_service.runtime.run_file import *; from pathlib import Path\n"
    hold += "with only_one(Path(sys.argv[1])): print('held', flush=True); signal.pause()"
    with Child([sys.executable, "-c", hold, str(tmp_path)], env=project_env()) as first:
        first.wait_for_line("held")
        with pytest.raises(AlreadyUp, match=rf"pid {first.pid}.*--data-dir"), only_one(tmp_path):
            pytest.fail("the lock was given twice")
        first.kill()
        with only_one(tmp_path):
            pass


def test_an_unreadable_run_file_counts_as_none(tmp_path: Path) -> None:
    assert read_run(tmp_path) == {}
    (tmp_path / "run.json").write_text("{half")
    assert read_run(tmp_path) == {}
    write_run(tmp_path, {"redis_port": 1})
    assert read_run(tmp_path) == {"redis_port": 1}


def test_a_record_that_cannot_be_written_is_told_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()  # as a full disk refuses it
    told: list[str] = []
    record_run(tmp_path, {"pid": 1}, told.append)
    assert told == [f"{tmp_path}/run.json is not written: Is a directory; other commands may not find this service"]


def test_no_password_is_shown_among_the_addresses(tmp_path: Path, ports: Ports) -> None:
    settings = Settings(
        data_dir=tmp_path,
        redis_url="redis://me:secret@elsewhere:6379/3",
        database_url="postgresql://me:secret@elsewhere/it",
    )
    table = address_table(create_plan(settings, {}, ports))
    assert "secret" not in table
    assert re.search(r"Redis +redis://me:\*\*\*@elsewhere:6379/3", table)


def test_an_address_of_every_interface_is_reached_on_loopback() -> None:
    assert http_url("0.0.0.0", 80) == "http://127.0.0.1:80"
    assert http_url("::", 80) == "http://[::1]:80"
    assert http_url("10.0.0.7", 80) == "http://10.0.0.7:80"


def test_the_next_free_port_skips_what_is_taken(ports: Ports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        assert not is_free(taken, "127.0.0.1")
        assert ports.take_from(taken, "127.0.0.1") != taken


def test_of_two_that_start_at_one_moment_each_has_ports_of_its_own(tmp_path: Path) -> None:
    with Ports() as ours, Ports() as theirs:
        plans = [create_plan(Settings(data_dir=tmp_path / name), {}, own) for name, own in (("a", ours), ("b", theirs))]
        chosen = {(plan.api_port, plan.flower_port, plan.redis and plan.redis.port) for plan in plans}
    assert len({port for three in chosen for port in three}) == 6


def test_a_port_that_nobody_holds_any_more_can_be_chosen_again() -> None:
    wanted = free_port()
    for _ in range(2):
        with Ports() as ports:
            assert ports.take_from(wanted, "127.0.0.1") == wanted


def test_every_demo_job_is_a_job_and_each_kind_is_there() -> None:
    bodies = demo_jobs(datetime(2026, 11, 27, 10, 0, tzinfo=UTC))
    for body in bodies:
        read_job(body, created_at=0)
    assert {body["schedule"]["kind"] for body in bodies} == {
        "any",
        "cron",
        "hourly",
        "interval",
        "once",
        "rrule",
        "solar",
    }
    assert any(body.get("retry", {}).get("max_attempts", 1) > 1 for body in bodies)


def modes_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o7777:o}" for path in folder.rglob("*")}


def test_redis_has_a_password_that_no_command_shows_and_one_file_tells(tmp_path: Path, ports: Ports) -> None:
    folder = tmp_path / "data"
    first = create_plan(Settings(data_dir=folder), {}, ports)
    assert first.redis is not None
    assert len(first.redis.password) >= 32
    argv = [word for part in parts_of(first, demo=True) for word in part.argv]
    assert not [word for word in argv if first.redis.password in word]
    assert (folder / "redis.url").read_text() == f"{first.redis_url}\n"
    assert first.redis.password not in address_table(first) + repr(first)
    assert str(folder / "redis.url") in address_table(first)
    again = create_plan(Settings(data_dir=folder), {"redis_port": first.redis.port}, ports)
    assert again.redis is not None
    assert again.redis.password == first.redis.password


@pytest.mark.slow
def test_the_embedded_redis_asks_for_its_password(tmp_path: Path, ports: Ports) -> None:
    plan = create_plan(Settings(data_dir=tmp_path), {}, ports)
    assert plan.redis is not None
    (server, *_) = parts_of(plan, demo=False)
    assert server.ready is not None
    with Child(list(server.argv)) as child:
        wait_until(server.ready, what=lambda: child.output)
        with redis.Redis(port=plan.redis.port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with redis.Redis.from_url(plan.redis_url) as ours:
            assert ours.ping()


@pytest.mark.slow
def test_the_embedded_redis_has_its_password_in_a_folder_that_reads_as_a_pattern(tmp_path: Path, ports: Ports) -> None:
    folder = tmp_path / "a #1 [x] * 'y' %41"
    plan = create_plan(Settings(data_dir=folder), {}, ports)
    assert plan.redis is not None
    redis_part = parts_of(plan, demo=False)[0]
    with Child(list(redis_part.argv), env=dict(redis_part.env)) as server:
        wait_until(lambda: redis_part.ready is not None and redis_part.ready(), what=lambda: server.output)
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=plan.redis.port).ping()


@pytest.mark.parametrize("name", ["a?b", "a\nb"])
def test_a_folder_that_no_database_url_can_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        BadValues,
        match=r"ITINERARY_DATA_DIR: .* has a \? or control characters; give another folder",
    ):
        load_settings(data_dir=tmp_path / name)


def test_flower_has_a_password_that_is_told_once_and_that_tasks_do_not_get(tmp_path: Path, ports: Ports) -> None:
    first = create_plan(Settings(data_dir=tmp_path), {}, ports)
    password = (tmp_path / "flower.password").read_text().strip()
    assert len(password) >= 32
    assert any(password in note for note in first.notes)
    again = create_plan(Settings(data_dir=tmp_path), {}, ports)
    assert not any(password in note for note in again.notes)
    given = {part.name: part.env.get("ITINERARY_FLOWER_PASSWORD") for part in parts_of(again, demo=True)}
    assert given == {
        "redis": None, "leader": None, "worker": None, "api": password, "flower": password, "demo": None,
    }  # fmt: skip
    assert password not in address_table(again) + repr(again)


def test_a_flower_password_of_the_settings_is_used_and_none_is_kept(tmp_path: Path, ports: Ports) -> None:
    plan = create_plan(Settings(data_dir=tmp_path, flower_password="my own"), {}, ports)
    assert plan.flower_password == "my own"
    assert not (tmp_path / "flower.password").exists()


def test_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "valkey" / "appendonlydir").mkdir(parents=True)
    for name in ("itinerary.db", "itinerary.db-wal", "itinerary.db-shm", "run.json", "up.lock", "valkey/x.aof"):
        (folder / name).write_text("")
        (folder / name).chmod(0o644)
    folder.chmod(0o755)
    with only_one(folder):
        pass
    files = ("itinerary.db", "itinerary.db-wal", "itinerary.db-shm", "run.json", "up.lock", "valkey/x.aof")
    assert modes_of(folder) == dict.fromkeys(files, "600") | dict.fromkeys(("valkey", "valkey/appendonlydir"), "700")
    assert f"{folder.stat().st_mode & 0o777:o}" == "700"


def test_what_is_not_ours_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir(mode=0o755)
    (folder / "shop.py").write_text("")
    (folder / "shop.py").chmod(0o644)
    (folder / "run.json").symlink_to("shop.py")
    with only_one(folder):
        pass
    assert modes_of(folder) == {"shop.py": "644", "run.json": "644", "up.lock": "600"}
    assert f"{folder.stat().st_mode & 0o777:o}" == "755"


def test_the_demo_has_a_token_of_its_own_where_the_api_asks_for_one(
    tmp_path: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = f"me:admin:{'0' * 64}"
    monkeypatch.setenv("ITINERARY_API_TOKENS", theirs)
    env = {p.name: p.env for p in parts_of(create_plan(load_settings(data_dir=tmp_path), {}, ports), demo=True)}
    digest = hashlib.sha256(env["demo"]["ITINERARY_API_TOKEN"].encode()).hexdigest()
    assert env["api"]["ITINERARY_API_TOKENS"] == f"{theirs},up-demo:operator:{digest}"
    assert "ITINERARY_API_TOKEN" not in env["worker"]
    file = tmp_path / "settings.toml"
    file.write_text(f'api_tokens = ["{theirs}"]\n')
    assert with_demo_token({"ITINERARY_CONFIG": str(file)})[0].startswith(f"{theirs},up-demo:operator:")


def test_running_tasks_get_the_time_of_the_setting(tmp_path: Path, ports: Ports) -> None:
    for settings, seconds in ((Settings(data_dir=tmp_path), 30), (Settings(data_dir=tmp_path, stop_timeout="2m"), 120)):
        plan = create_plan(settings, {}, ports)
        assert {part.name: part.stop_timeout for part in parts_of(plan, demo=False)}["worker"] == seconds
