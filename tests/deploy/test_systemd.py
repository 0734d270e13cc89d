"""deploy/systemd: understood by systemd itself, closed in, and stopped with patience."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.manifests import COMMANDS, DEPLOY, read_env, settings_of

FOLDER = DEPLOY / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
NAMES = [unit.name for unit in UNITS]
PROGRAM = "/opt/itinerary/.venv/bin/itinerary"
WORST_EXPOSURE = 2.0
"""Of 10, by `systemd-analyze security`; an ordinary unit has 9.6."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze judges it")


def keys(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def part(unit: Path) -> str:
    """Which part of the service it runs."""
    return unit.stem.removeprefix("itinerary-").removesuffix("@")


def seconds(text: str) -> int:
    number = int(text.rstrip("abcdefghijklmnopqrstuvwxyz"))
    return number * {"": 1, "s": 1, "min": 60, "h": 3600}[text.lstrip("0123456789")]


def test_there_is_a_unit_for_each_part() -> None:
    assert {part(unit) for unit in UNITS} == COMMANDS


@needs_systemd
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    program = tmp_path / PROGRAM.removeprefix("/")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name in ("sysinit", "basic", "shutdown", "multi-user", "network-online"):
        (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    for unit in UNITS:
        shutil.copy(unit, units)
    wanted = [name.replace("@", "@default") for name in NAMES]
    said = _systemd("verify", f"--root={tmp_path}", "--man=no", *wanted)
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_a_unit_is_closed_in(unit: Path) -> None:
    said = _systemd("security", "--offline=yes", "--no-pager", f"--threshold={WORST_EXPOSURE * 10:.0f}", str(unit))
    assert said.returncode == 0, said.stdout[-400:] + said.stderr


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_a_unit_runs_its_part_as_nobody_special(unit: Path) -> None:
    found = keys(unit)
    program, command, *_ = shlex.split(found["ExecStart"][0])
    assert program == PROGRAM
    assert command == part(unit)
    assert found["User"] == ["itinerary"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["NoNewPrivileges"] == ["yes"]


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_a_stop_waits_for_what_is_in_hand_and_a_death_is_no_end(unit: Path) -> None:
    found = keys(unit)
    if found["Type"] == ["oneshot"]:
        return
    assert found["Restart"] == ["always"]
    assert found["StartLimitIntervalSec"] == ["0"]
    assert found["KillMode"] == ["mixed"]  # a worker's task processes are not told to stop
    least = {"worker": 600, "leader": 20}.get(part(unit), 6)
    assert seconds(found["TimeoutStopSec"][0]) >= least


def test_the_examples_hold_settings_that_the_program_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_env(FOLDER / "itinerary.env.example")
    whole["ITINERARY_API_TOKENS"] = f"ops:admin:{'0' * 64}"
    assert settings_of(whole, monkeypatch).metrics_port == 9108
    workers = read_env(FOLDER / "worker.env.example")
    assert settings_of(workers, monkeypatch).redis_url
    assert "ITINERARY_DATABASE_URL" not in workers


def _systemd(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False, cwd="/")
