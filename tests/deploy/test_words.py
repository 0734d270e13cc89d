"""Identifiers carry the standard terms; the phrases and sentences that do not are listed, and the list only shrinks."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.processes import REPOSITORY
from tests.support.syntax import nodes

ROOTS: Final = ("scheduler_service", "workers", "deploy")
LEFT: Final = Path(__file__).with_name("words_left.txt")
LONGEST_SENTENCE: Final = 25

SAY_INSTEAD: Final = {
    word: instead
    for words, instead in {
        "look looks looked looking": "poll, query",
        "release releases released releasing": "dispatch",
        "renumber anew": "redispatch, again",
        "standing standings led": "index state, tracked",
        "settle settles settled settling": "reconcile",
        "owe owes owed owing": "missed",
        "gap gaps": "missed range",
        "fold folds folded folding": "coalesce",
        "floor floors": "low watermark",
        "generation generations": "epoch, snapshot",
        "roster rosters": "schedule table",
        "walk walks walked": "stepping, scan",
        "aside bury buried halving sparing": "quarantine, dead-letter, bisect, row by row",
        "told said heard deaf silence silent": "reported, received, blocked, since",
        "board heart deed deeds courier watchman keeper outside": "the class of HOUSE's table that fits",
        "effect effects": "command",
        "made make makes making": "create, created",
        "complaint complaints words": "error, message",
    }.items()
    for word in words.split()
}

ALLOWED: Final = {
    "_fold_message": "a gap or fold of the clocks (PEP 495)",
    "_folded": "a gap or fold of the clocks (PEP 495)",
    "_FOLDS": "a gap or fold of the clocks (PEP 495)",
    "_gap_message": "a gap or fold of the clocks (PEP 495)",
    "_GAP_RULES": "a gap or fold of the clocks (PEP 495)",
    "_GAPS": "a gap or fold of the clocks (PEP 495)",
    "_gaps": "a gap or fold of the clocks (PEP 495)",
    "_NO_EFFECT": "ordinary English: rules that change nothing",
    "_print_folded": "lines folded to the width of a terminal",
    "connection_made": "asyncio's name",
    "dst_fold": "a gap or fold of the clocks (PEP 495)",
    "dst_gap": "a gap or fold of the clocks (PEP 495)",
    "fold": "a gap or fold of the clocks (PEP 495)",
    "folded": "counts folded onto one period",
    "FoldRule": "a gap or fold of the clocks (PEP 495)",
    "folds": "a gap or fold of the clocks (PEP 495)",
    "gap": "a gap or fold of the clocks (PEP 495)",
    "GapRule": "a gap or fold of the clocks (PEP 495)",
    "GAPS": "the stored name of a table",
    "gaps": "the stored name of a table",
    "last_heard_at": "a JSON field",
    "led_or_not": "ordinary English: whether somebody led",
    "led_until": "ordinary English: when a term ended",
    "made_at": "a parameter of the public testing kit",
    "said": "the stored name of a column",
    "standing_by": "ordinary English: a standby",
    "unfit_releases": "releases of packages",
    "words": "a JSON field",
    "Words": "a type of the API: text that is shown",
}

PHRASES: Final = (
    "goes out anew",
    "is out(?! of)",
    "are out(?! of)",
    "set aside",
    "nobody is told",
    "by hand",
    "let out",
    "let in",
    "handed out",
    "say again",
    "in words",
    "is owed",
    "looks at",
    "look at",
    "whoever",
    "made anew",
    "is heard",
    "was heard",
    "says nothing",
    "goes on",
)
_ANY_PHRASE: Final = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")
_OPENING: Final = re.compile(r"(?:What|Whoever|Where)\b")
_NAME: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


class Source(NamedTuple):
    """A source file of the product."""

    path: str
    text: str
    names: frozenset[str]
    docstrings: tuple[str, ...]


@cache
def sources() -> list[Source]:
    """Every source file of the product, read once for all tests."""
    return [read(path) for root in ROOTS for path in sorted((REPOSITORY / root).rglob("*.py"))]


def read(path: Path) -> Source:
    """What the tests ask of a file; to keep its tree would cost far more than to read it."""
    text = path.read_text("utf-8")
    names, docstrings = set(), []
    for node in nodes(ast.parse(text)):
        if (name := defined(node)) is not None:
            names.add(name)
        if (said := docstring(node)) is not None:
            docstrings.append(said)
    return Source(path.relative_to(REPOSITORY).as_posix(), text, frozenset(names), tuple(docstrings))


def defined(node: ast.AST) -> str | None:
    """The name that a file gives to something here."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return None


def old_words(name: str) -> list[str]:
    """The words of a name for which there is a standard term."""
    return [word for part in _NAME.findall(name) if (word := part.lower()) in SAY_INSTEAD]


def texts(source: str) -> Iterator[str]:
    """Comments and strings, docstrings among them."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield re.sub(r"\s+", " ", token.string)


def docstring(node: ast.AST) -> str | None:
    """The docstring of this part of a file, on one line, without the code and the JSON that is indented in it."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    text = ast.get_docstring(node)
    return re.sub(r"\s+", " ", re.sub(r"^ .*$", "", text, flags=re.MULTILINE)) if text else None


def is_long(sentence: str) -> bool:
    """Whether a sentence has more words than one breath holds."""
    return len(sentence.split()) > LONGEST_SENTENCE


def counted() -> Counter[tuple[str, str]]:
    """(file, what is wrong) -> how often, for phrases, openings and long sentences."""
    found: Counter[tuple[str, str]] = Counter()
    for name, source, _, docstrings in sources():
        # To take a file apart is slow: only where a phrase stands somewhere, in its code maybe.
        if _ANY_PHRASE.search(re.sub(r"\s+", " ", source).lower()):
            whole = " ".join(texts(source)).lower()
            for phrase in PHRASES:
                found[name, phrase] += len(re.findall(rf"\b{phrase}\b", whole))
        for text in docstrings:
            found[name, "(opening)"] += bool(_OPENING.match(text))
            found[name, "(long sentence)"] += sum(is_long(one) for one in re.split(r"(?<=[.?!]) ", text))
    return +found


def listed() -> dict[tuple[str, str], int]:
    """The counts of the list."""
    lines = [line.rsplit(": ", 2) for line in LEFT.read_text("utf-8").splitlines()]
    return {(path, phrase): int(count) for path, phrase, count in lines}


def test_names_carry_the_standard_terms() -> None:
    wrong = {
        f"{source.path}: {name}": [f"{word} -> {SAY_INSTEAD[word]}" for word in words]
        for source in sources()
        for name in sorted(source.names)
        if name not in ALLOWED and (words := old_words(name))
    }
    assert wrong == {}


def test_every_exception_is_still_needed() -> None:
    names = {name for source in sources() for name in source.names}
    assert {name for name in ALLOWED if name not in names or not old_words(name)} == set()


def test_phrases_and_sentences_only_get_fewer() -> None:
    found, known = dict(counted()), listed()
    wrong = [
        f"{path}: {what}: {known.get((path, what), 0)} -> {found.get((path, what), 0)}"
        for path, what in sorted(found.keys() | known.keys())
        if found.get((path, what), 0) != known.get((path, what), 0)
    ]
    hint = (
        "say it plainly where a count grew; where all shrank, write the list again: python -m tests.deploy.test_words"
    )
    assert not wrong, f"{hint}\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "words"),
    [("next_look_at", ["look"]), ("MakeRuns", ["make"]), ("GENERATION_SEEN", ["generation"]), ("outlook", [])],
)
def test_words_are_found_in_names_of_each_form(name: str, words: list[str]) -> None:
    assert old_words(name) == words


def main() -> None:
    """Write the list as it is now; it may not grow."""
    found, known = counted(), listed() if LEFT.exists() else None
    grown = [key for key, count in found.items() if known is not None and count > known.get(key, 0)]
    if grown:
        raise SystemExit(f"these grew, and are not written down: {sorted(grown)}")
    LEFT.write_text("".join(f"{path}: {what}: {count}\n" for (path, what), count in sorted(found.items())), "utf-8")


if __name__ == "__main__":
    main()
