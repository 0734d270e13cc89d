"""Which service the command line asks: never one of another folder without a word."""

from pathlib import Path

import pytest

from itinerary.protocol.errors import ItineraryError
from scheduler_service.cli.connect import open_client
from scheduler_service.runtime.run_file import only_one, write_run


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
