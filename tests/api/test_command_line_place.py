"""Which service the command line asks: never one of another folder without a word."""

from pathlib import Path

import pytest

from itinerary.protocol.errors import ItineraryError
from scheduler_service.cli.beside_up import app_of_up, as_up_runs_it, worker_variables
from scheduler_service.cli.connect import open_client, remedy
from scheduler_service.config.settings import load_settings
from scheduler_service.runtime.private_files import write_private
from scheduler_service.runtime.run_file import REDIS_FILE, only_one, write_run


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("API_URL", "API_HOST", "API_PORT", "DATA_DIR", "CONFIG"):
        monkeypatch.delenv(f"ITINERARY_{name}", raising=False)


def asked() -> str:
    with open_client() as client:
        return client.base_url


def test_without_an_up_here_the_settings_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked() == "http://127.0.0.1:8080"
    monkeypatch.setenv("ITINERARY_API_PORT", "8123")
    assert asked() == "http://127.0.0.1:8123"


def test_the_up_of_the_folder_is_asked(tmp_path: Path) -> None:
    with only_one(tmp_path / ".itinerary"):
        write_run(tmp_path / ".itinerary", {"api_url": "http://127.0.0.1:8099"})
        assert asked() == "http://127.0.0.1:8099"


def test_where_the_folders_up_is_stopped_no_other_service_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with only_one(tmp_path / ".itinerary"):
        pass
    write_run(tmp_path / ".itinerary", {"redis_port": 6390})  # as a stopped `up` leaves it
    with pytest.raises(ItineraryError, match=f"of {tmp_path}/.itinerary is not running; start it with `itinerary up`"):
        asked()
    monkeypatch.setenv("ITINERARY_API_PORT", "8123")
    assert asked() == "http://127.0.0.1:8123"
    monkeypatch.setenv("ITINERARY_API_URL", "http://elsewhere:1")
    assert asked() == "http://elsewhere:1"


def test_another_folder_is_named_in_the_command_that_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "shop"
    with only_one(other):
        pass
    monkeypatch.setenv("ITINERARY_DATA_DIR", str(other))
    with pytest.raises(ItineraryError, match=f"`itinerary up --data-dir {other}`"):
        asked()


def test_the_command_that_starts_an_up_again_has_the_options_of_its_last_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "shop"
    with only_one(other):
        pass
    write_run(other, {"redis_port": 6390, "given": {"app": "shop:app", "port": 8099}})  # as a stopped `up` leaves it
    monkeypatch.setenv("ITINERARY_DATA_DIR", str(other))
    with pytest.raises(ItineraryError, match=f"`itinerary up --app shop:app --port 8099 --data-dir {other}`"):
        asked()
    assert f"`itinerary up --app shop:app --port 8099 --data-dir {other}`" in remedy()
    assert app_of_up(other) == "shop:app"


@pytest.mark.parametrize("running", [True, False])
def test_the_redis_of_the_up_that_runs_here_is_the_default(
    running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REDIS_URL", "BROKER_URL", "KEY_PREFIX"):
        monkeypatch.delenv(f"ITINERARY_{name}", raising=False)
    folder = tmp_path / ".itinerary"
    with only_one(folder):
        write_run(folder, {"redis_port": 6390} | ({"pid": 17} if running else {}))
        write_private(folder / REDIS_FILE, "redis://:secret@127.0.0.1:6390/0\n")
    found = as_up_runs_it(load_settings())
    assert (found.redis_url, found.broker_url) == (
        ("redis://:secret@127.0.0.1:6390/0",) * 2 if running else ("redis://127.0.0.1:6379/0",) * 2
    )
    ours = dict.fromkeys(("ITINERARY_REDIS_URL", "ITINERARY_BROKER_URL"), "redis://:secret@127.0.0.1:6390/0")
    assert worker_variables(load_settings()) == (ours if running else {})
    monkeypatch.setenv("ITINERARY_REDIS_URL", "redis://elsewhere:1/0")
    assert as_up_runs_it(load_settings()).redis_url == "redis://elsewhere:1/0"


def test_a_worker_goes_by_the_settings_of_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "BROKER_URL", "KEY_PREFIX"):
        monkeypatch.delenv(f"ITINERARY_{name}", raising=False)
    (tmp_path / "own.toml").write_text('redis_url = "redis://one:1/0"\nbroker_url = "redis://two:2/0"\n')
    monkeypatch.setenv("ITINERARY_CONFIG", str(tmp_path / "own.toml"))
    assert worker_variables(load_settings()) == {
        "ITINERARY_REDIS_URL": "redis://one:1/0",
        "ITINERARY_BROKER_URL": "redis://two:2/0",
    }
