"""The mutants: small wrong changes of the product, each with the tests that must notice it.

Owns the lists beside it (`*.toml`) and their form. A list that no longer fits the code is a complaint, never skipped.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
LISTS: Final = Path(__file__).resolve().parent
_OF_FILE: Final = frozenset({"path", "tests", "mutant"})
_OF_MUTANT: Final = frozenset({"name", "find", "replace", "tests", "equivalent"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `path`, `find` becomes `replace`; `equivalent` says why no test can notice it, where that is so."""

    path: str
    name: str
    find: str
    replace: str
    tests: tuple[str, ...]
    equivalent: str | None = None

    def __str__(self) -> str:
        return f"{self.path.removeprefix('scheduler_service/')}: {self.name}"

    def applied(self, text: str) -> str:
        """The file's text with the change; ValueError where `find` does not stand there exactly once."""
        if (found := text.count(self.find)) != 1:
            raise ValueError(f"{self}: its text stands there {found} times, not once: {self.find!r}")
        return text.replace(self.find, self.replace)


def mutants(scopes: list[str]) -> list[Mutant]:
    """All mutants, or those of the files and folders named: `core`, `core/planning`, `workers`."""
    every = [mutant for path in sorted(LISTS.glob("*.toml")) for mutant in _read(path)]
    return [mutant for mutant in every if not scopes or any(_is_of(mutant, scope) for scope in scopes)]


def complaints(root: Path = ROOT) -> list[str]:
    """What does not fit the code any more: texts that are gone or stand twice, syntax, tests that are not there."""
    every = mutants([])
    found = [f"{one}: there are two mutants of this name" for one, times in Counter(every).items() if times > 1]
    for mutant in every:
        found += _misfits(mutant, root)
    return found


def _misfits(mutant: Mutant, root: Path) -> Iterator[str]:
    path = root / mutant.path
    if not _text_of(path):
        yield f"{mutant}: there is no such file"
        return
    try:
        text = mutant.applied(_text_of(path))
        if path.suffix == ".py":
            compile(text, mutant.path, "exec", dont_inherit=True)
    except (ValueError, SyntaxError) as error:
        yield str(error) if isinstance(error, ValueError) else f"{mutant}: it is no Python: {error}"
    if not mutant.tests and mutant.equivalent is None:
        yield f"{mutant}: name the tests that must notice it"
    for test in mutant.tests:
        file, *names = test.split("::")
        text = _text_of(root / file)
        if not text or any(f"def {name}" not in text and f"class {name}" not in text for name in names):
            yield f"{mutant}: there is no test {test}"


@cache
def _text_of(path: Path) -> str:
    """What stands in a file, read once for all mutants; nothing where there is none."""
    return path.read_text("utf-8") if path.is_file() else ""


def _is_of(mutant: Mutant, scope: str) -> bool:
    wanted = scope.strip("/").removesuffix(".py")
    path = mutant.path.removesuffix(".py")
    return any(f"{name}/".startswith(f"{wanted}/") for name in (path, path.removeprefix("scheduler_service/")))


def _read(path: Path) -> Iterator[Mutant]:
    body: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    for file in body["file"]:
        _only(file, _OF_FILE, path)
        for one in file["mutant"]:
            _only(one, _OF_MUTANT, path)
            tests = tuple(one.get("tests", file.get("tests", ())))
            yield Mutant(file["path"], one["name"], one["find"], one["replace"], tests, one.get("equivalent"))


def _only(table: dict[str, Any], known: frozenset[str], path: Path) -> None:
    if unknown := table.keys() - known:
        raise ValueError(f"{path.name}: {sorted(unknown)} are not known; known are {sorted(known)}")
