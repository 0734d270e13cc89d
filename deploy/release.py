"""`python3 deploy release [--dry-run]`: build what is published of one commit, and check it.

Owns the folder `dist/`: both wheels and source distributions, their SBOMs, the notes of the version, the checksums.
Promises that each is built twice with equal bytes, from committed files alone. Never uploads: its last lines say how.
Standard library only; the build tools live in an environment of their own.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from environments import ROOT, environment, report, scrubbed

DIST = ROOT / "dist"
CHANGELOG = ROOT / "CHANGELOG.md"
# Each distribution: its folder, and the lock of its list of parts.
PACKAGES = {"celery-itinerary": ("workers", "requirements-worker.lock"), "itinerary-server": (".", "requirements.lock")}
NOTES = "NOTES.md"
SUMS = "SHA256SUMS"


class Unfit(Exception):
    """This commit cannot be released; the message says what to change."""


def package(arguments: list[str]) -> None:
    """Build and check everything; without `--dry-run` also tag the commit."""
    if unknown := [word for word in arguments if word != "--dry-run"]:
        sys.exit(f"deploy release: unknown option {unknown[0]!r}; there is only --dry-run")
    try:
        version = agreed_version()
        notes = notes_of(version)
        if "--dry-run" not in arguments and git("tag", "--list", f"v{version}"):
            raise Unfit(f"the tag v{version} is there already; give this commit the next version")
        built = build_all(environment(".venv-release"), committed())
        (DIST / NOTES).write_text(notes)
        write_sums()
        if "--dry-run" not in arguments:
            git("tag", "--annotate", f"v{version}", "--message", f"Itinerary {version}")
    except Unfit as exc:
        sys.exit(f"deploy release: {exc}")
    print(next_steps(version, built, tagged="--dry-run" not in arguments))


def agreed_version() -> str:
    """Return the one version that both distributions and the program state; Unfit if they differ or files do."""
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        raise Unfit(f"commit or revert these changes first, since only committed files are built:\n{changed}")
    stated = {}
    for folder, _ in PACKAGES.values():
        name = str(Path(folder, "pyproject.toml"))
        stated[name] = tomllib.loads((ROOT / name).read_text())["project"]["version"]
    for name in ("workers/itinerary/version.py", "scheduler_service/version.py"):
        found = re.search(r'^VERSION: Final = "(.+)"$', (ROOT / name).read_text(), re.MULTILINE)
        stated[name] = found[1] if found else "none"
    if len(set(stated.values())) > 1:
        raise Unfit("the versions differ: " + ", ".join(f"{name} states {text}" for name, text in stated.items()))
    return stated["pyproject.toml"]


def notes_of(version: str) -> str:
    """Return the section of CHANGELOG.md on this version; Unfit if it has none, or notes that no version names."""
    sections = re.split(r"(?m)^## ", CHANGELOG.read_text())[1:]
    titles = {section.partition("]")[0].lstrip("["): section for section in sections}
    if titles.get("Unreleased", "").partition("\n")[2].strip():
        raise Unfit("CHANGELOG.md has lines under [Unreleased]: move them below the title of a version")
    if version not in titles:
        raise Unfit(f'CHANGELOG.md has no section "## [{version}] - DATE"')
    title, _, text = titles[version].partition("\n")
    if not re.fullmatch(r"\[.+\] - \d{4}-\d\d-\d\d", title):
        raise Unfit(f'the title of CHANGELOG.md for {version} lacks its date: "## [{version}] - 2026-01-31"')
    return f"# Itinerary {version}\n\n{text.strip()}\n"


def committed() -> bytes:
    """Return the committed files, as a tar archive."""
    return subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout


def build_all(python: str, files: bytes, out: Path = DIST) -> list[Path]:
    """Fill the folder `out` anew; return the four distributions in it. Unfit if two builds differ or a check fails."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (build(python, files, Path(scratch) / str(number)) for number in (1, 2))
    for name, content in first.items():
        if second[name] != content:
            raise Unfit(f"two builds of {name} differ; find what time, order or path it contains")
        (out / name).write_bytes(content)
    built = sorted(out / name for name in first)
    report("checking the metadata ...")
    checked(python, ["-m", "twine", "check", "--strict", *map(str, built)], "the metadata is not right")
    for name, (folder, lock) in PACKAGES.items():
        report(f"listing the parts of {name} ...")
        list_parts(python, ROOT / folder / "pyproject.toml", ROOT / "deploy" / lock, out / f"{name}.cdx.json")
    return built


def build(python: str, files: bytes, folder: Path) -> dict[str, bytes]:
    """Build each source distribution from the files, unpacked in `folder`, and each wheel from that."""
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(files)) as packed:
        unpack(packed, folder)
    env = scrubbed(os.environ) | {"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    built: dict[str, bytes] = {}
    for name, (place, _) in PACKAGES.items():
        report(f"building {name} (build {folder.name} of 2) ...")
        out = folder / "out" / name
        hatch = ["-m", "hatchling", "build", "-d", str(out)]
        checked(python, [*hatch, "-t", "sdist"], f"{name} has no sdist", cwd=folder / place, env=env)
        (source,) = out.glob("*.tar.gz")
        with tarfile.open(source) as packed:
            unpack(packed, folder / "unpacked")
        inside = folder / "unpacked" / source.name.removesuffix(".tar.gz")
        checked(python, [*hatch, "-t", "wheel"], f"{name} has no wheel", cwd=inside, env=env)
        built |= {path.name: path.read_bytes() for path in out.iterdir()}
    return built


def unpack(packed: tarfile.TarFile, folder: Path) -> None:
    """Write the archive's files into the folder; Python before 3.11.4 has no filter, and the archives are our own."""
    packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def list_parts(python: str, project: Path, lock: Path, out: Path) -> None:
    """Write a CycloneDX list of the packages, versions and hashes that the lock installs."""
    options = ["--output-reproducible", "--of", "JSON", "--pyproject", str(project), "-o", str(out)]
    checked(python, ["-m", "cyclonedx_py", "requirements", *options, str(lock)], f"{out.name} could not be written")


def write_sums() -> None:
    """Write the SHA-256 of each file in `dist/`, in the form that `sha256sum --check` reads."""
    files = sorted(path for path in DIST.iterdir() if path.name != SUMS)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (DIST / SUMS).write_text("".join(lines))


def checked(python: str, arguments: list[str], failure: str, **options: object) -> None:
    """Run a build tool; Unfit with its output if it fails."""
    ended = subprocess.run([python, "-P", *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if ended.returncode:
        raise Unfit(f"{failure}:\n{ended.stdout}{ended.stderr}")


def git(*arguments: str) -> str:
    """Return what git prints; Unfit if there is no git or no checkout."""
    try:
        ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        raise Unfit("git is needed: only committed files are built") from None
    if ended.returncode:
        raise Unfit(f"git {arguments[0]} failed: {ended.stderr.strip()}")
    return ended.stdout.strip()


def next_steps(version: str, built: list[Path], *, tagged: bool) -> str:
    """Say what was built, and how to publish it."""
    lines = [f"Itinerary {version}: in {DIST.name}/, each built twice with equal bytes:"]
    lines += [f"  {path.name}  {path.stat().st_size // 1024} kB" for path in built]
    lines += [f"  {NOTES}, {SUMS}, " + ", ".join(f"{name}.cdx.json" for name in PACKAGES)]
    if tagged:
        lines += [f"Tagged v{version}. To publish: git push origin v{version}; twine upload dist/*.whl dist/*.tar.gz"]
    else:
        lines += ["A dry run: nothing was tagged. Without --dry-run this commit gets its tag."]
    return "\n".join(lines)
