"""`python3 deploy release`: which commits it refuses, and why. tests/e2e/test_distributions.py builds one."""

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from itinerary.version import VERSION
from tests.support.processes import REPOSITORY


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """deploy/release.py on a repository of its own with what it reads."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "deploy"))
    import release  # type: ignore[import-not-found]

    versions = ("workers/itinerary/version.py", "scheduler_service/version.py")
    for name in ("pyproject.toml", "workers/pyproject.toml", *versions, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "CHANGELOG", tmp_path / "CHANGELOG.md")
    return release


def test_this_checkout_could_be_released(release: ModuleType) -> None:
    assert release.agreed_version() == VERSION
    notes = release.notes_of(VERSION)
    assert notes.startswith(f"# Itinerary {VERSION}\n\n### ")
    assert "\n## " not in notes


def test_versions_that_differ_are_named(release: ModuleType, tmp_path: Path) -> None:
    wrong = (tmp_path / "workers" / "pyproject.toml").read_text().replace(f'version = "{VERSION}"', 'version = "9.9"')
    (tmp_path / "workers" / "pyproject.toml").write_text(wrong)
    with pytest.raises(release.Unfit, match=r"commit or revert.*\n.*workers/pyproject.toml"):
        release.agreed_version()
    subprocess.run(
        ["git", "-C", str(tmp_path), "update-index", "--assume-unchanged", "workers/pyproject.toml"], check=True
    )
    with pytest.raises(release.Unfit, match=r"versions differ: .*workers/pyproject.toml states 9.9"):
        release.agreed_version()


@pytest.mark.parametrize(
    ("changelog", "message"),
    [
        ("## [Unreleased]\n- x\n\n## [1.0] - 2026-01-31\n- y\n", "lines under \\[Unreleased\\]"),
        ("## [0.9] - 2026-01-31\n- y\n", 'no section "## \\[1.0\\] - DATE"'),
        ("## [1.0]\n- y\n", "lacks its date"),
    ],
)
def test_a_changelog_that_does_not_tell_of_the_version_is_refused(
    release: ModuleType, tmp_path: Path, changelog: str, message: str
) -> None:
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{changelog}")
    with pytest.raises(release.Unfit, match=message):
        release.notes_of("1.0")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.0] - 2026-01-31\n- y\n")
    assert release.notes_of("1.0") == "# Itinerary 1.0\n\n- y\n"


def test_a_version_that_has_its_tag_is_refused_before_anything_is_built(release: ModuleType, tmp_path: Path) -> None:
    subprocess.run(["git", "-C", str(tmp_path), "tag", f"v{VERSION}"], check=True)
    with pytest.raises(SystemExit, match=f"the tag v{VERSION} is there already"):
        release.package([])
