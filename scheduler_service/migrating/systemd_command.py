"""ExecStart= as a command for a shell: systemd's quoting, prefixes, specifiers and variables. Pure."""

import re
import shlex
from typing import Final

from scheduler_service.migrating.converted import CannotConvert

_PREFIXES: Final = "@-:+!|"
_VARIABLE: Final = re.compile(r"\$\$|\$\{(\w+)\}|\$(\w+)", re.ASCII)
# Where shlex reads a backslash as systemd does.
_READ_ALIKE: Final = re.compile(r"""(?:[^\\"']|\\[\\"' ]|"(?:[^"\\]|\\[\\"])*"|'[^'\\]*')*""")
_SHELLS: Final = ("/bin/sh", "sh")
_SPECIFIER: Final = re.compile(r"%(.)")


def filled(text: str, unit: str, key: str) -> str:
    """The text with the specifiers that the unit's name answers; CannotConvert for those of the machine."""
    stem = unit.rpartition(".")[0]
    prefix, at, instance = stem.partition("@")
    known = {"%": "%", "n": unit, "N": stem, "p": prefix, "i": instance, "I": instance.replace("-", "/")}

    def of(found: re.Match[str]) -> str:
        if found[1] not in known or (found[1] in "iI" and not at):
            raise CannotConvert(f"{key} holds {found[0]}, which systemd fills in: write its value")
        return known[found[1]]

    return _SPECIFIER.sub(of, text)


def shell_command(lines: list[str], unit: str, *, alone: bool = True) -> str:
    """The commands one after the other, as systemd runs those of a oneshot: the first that fails ends it.

    One that is given to a shell is what that shell is given, where nothing else is put before it (`alone`).
    """
    only = plain_command(lines, unit) if alone else None
    if only is not None and len(only) == 3 and only[0] in _SHELLS and only[1] == "-c":
        return only[2]
    return " && ".join(_one(line, unit) for line in lines)


def plain_command(lines: list[str], unit: str) -> list[str] | None:
    """The words of an only command; None where systemd would fill in variables, or not heed how it ends."""
    if len(lines) != 1:
        return None
    prefix, words = _split(lines[0])
    found = [filled(word, unit, "ExecStart") for word in words]
    if prefix or any(variable[0] != "$$" for word in found for variable in _VARIABLE.finditer(word)):
        return None
    return [word.replace("$$", "$") for word in found]


def _split(line: str) -> tuple[str, list[str]]:
    """The prefix, and the words without their quotes."""
    text = line.lstrip(_PREFIXES)
    prefix = line[: len(line) - len(text)]
    if set(prefix) - {"-"}:
        raise CannotConvert(f"ExecStart={prefix}... has a prefix that only systemd knows: {prefix}")
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise CannotConvert(f"ExecStart={line} is not understood: {exc}") from exc
    if not _READ_ALIKE.fullmatch(text):
        raise CannotConvert(f"ExecStart={line} has a backslash that only systemd understands")
    if ";" in words:
        raise CannotConvert("ExecStart has several commands in one line: write one ExecStart for each")
    return prefix, words


def _one(line: str, unit: str) -> str:
    prefix, words = _split(line)
    command = " ".join(_word(filled(word, unit, "ExecStart")) for word in words)
    return f"{{ {command} || true; }}" if prefix else command


def _word(word: str) -> str:
    """The word as a shell has to read it: a variable of its own is split, one within a word is not."""
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    alone = _VARIABLE.fullmatch(word)
    if alone and alone[2]:
        return f"${alone[2]}"
    return "".join(_piece(piece) for piece in re.split(r"(\$\$|\$\{\w+\}|\$\w+)", word) if piece)


def _piece(piece: str) -> str:
    if piece == "$$":
        return "'$'"
    return f'"{piece}"' if _VARIABLE.fullmatch(piece) else shlex.quote(piece)
