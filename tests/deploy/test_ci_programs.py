"""Chromium, PgBouncer and a Redis with TLS: asked of apt on a machine of CI alone. A script stands for apt-get."""

import os
from pathlib import Path

import pytest

from tests.support.browser import NAMES
from tests.support.processes import REPOSITORY
from tests.support.tls_redis import CHECKER

APT = """\
#!/bin/sh
echo "$@" >> {folder}/asked
[ "$1" = update ] && exit 0
for package; do :; done
[ "$package" = redis-tools ] && package=redis-check-rdb
printf '#!/bin/sh\\n' > {folder}/$package
/bin/chmod +x {folder}/$package
echo "a thousand lines about packages"
"""
INSTALL = "install -y --no-install-recommends"
INSTALLED = ["update", f"{INSTALL} chromium", f"{INSTALL} pgbouncer", f"{INSTALL} redis-tools"]


class Machine:
    """What PATH holds, and what its apt-get was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def asked(self) -> list[str]:
        import ci_programs  # type: ignore[import-not-found]

        assert ci_programs.BROWSERS == NAMES
        assert ci_programs.REDIS == CHECKER
        ci_programs.programs_for_ci()
        log = self.folder / "asked"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A fresh machine of CI: root, apt-get, no browser, no pooler, no Redis."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "deploy"))
    monkeypatch.setattr("ci_programs.SERVERS_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("ITINERARY_TEST_BROWSER", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine = Machine(tmp_path)
    machine.put("apt-get", APT.format(folder=tmp_path))
    return machine


def test_a_machine_of_ci_gets_them_once(machine: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    assert machine.asked() == INSTALLED
    assert machine.asked() == INSTALLED
    assert "packages" not in "".join(capfd.readouterr())


def test_nobodys_own_machine_is_changed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI")
    assert machine.asked() == []


def test_without_root_nothing_is_tried(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.asked() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_browser_that_is_there_is_enough(machine: Machine, name: str) -> None:
    machine.put(name)
    assert machine.asked() == ["update", *INSTALLED[2:]]


def test_a_browser_that_is_named_is_enough(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_TEST_BROWSER", "/opt/browser")
    machine.put("pgbouncer")
    machine.put(CHECKER)
    assert machine.asked() == []


def test_where_packages_are_not_apts_nothing_is_tried(machine: Machine) -> None:
    (machine.folder / "apt-get").unlink()
    assert machine.asked() == []


def test_an_installation_that_fails_is_shown_and_stops_nothing(
    machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.put("apt-get", '#!/bin/sh\necho "E: no such mirror"\nexit 100\n')
    assert machine.asked() == []
    said = capfd.readouterr().err
    assert "E: no such mirror" in said
    assert "will skip" in said


def test_an_installation_that_hangs_is_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.put("apt-get", "#!/bin/sh\nexec /bin/sleep 60\n")
    import ci_programs

    monkeypatch.setattr(ci_programs, "BOUND_SECONDS", 0.2)
    assert machine.asked() == []
    assert "timed out" in capfd.readouterr().err
