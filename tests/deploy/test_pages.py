"""The pages beside the code: each link leads somewhere; each setting, figure and command that they name is there."""

import re
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from scheduler_service.cli.program import app
from scheduler_service.config.settings import OTHER_NAMES, PREFIX, Settings
from tests.support.api_calls import DOCUMENT
from tests.support.pages import CHAPTERS, INDEX, PAGES, anchors, links, prose
from tests.support.processes import MANUAL, REPOSITORY

NAMES = [str(path.relative_to(REPOSITORY)) for path in PAGES]
CODE = chain.from_iterable((REPOSITORY / folder).rglob("*.py") for folder in ("scheduler_service", "workers"))
SOURCES = "\n".join(path.read_text("utf-8") for path in CODE)
LONGEST_README = 200
TOUR = MANUAL / "start.md"
SETTINGS = MANUAL / "settings.md"
NOT_LOGGED = {
    "--log FILE", "read-only transaction", "started after", "leading term=N+1", "redis: not the leader's Redis",
    'misfire: {"policy": "fire_all"}', '{"event": "start"|"end", "task_id": ..., "at": seconds}', "Cannot connect to amqp://...",
    "appendonly yes", "maxmemory-policy noeviction", "ttl - margin", "runs republished cause=generation",
}  # fmt: skip
"""Texts in marks of code that other programs say, or that nobody does."""
# What these pages once said for dispatch, redispatch, in flight, missed, low watermark, quarantine, report, repair, ...
OWN_WORDS = (
    r"\bgo(es)? out\b|\b(is|are|was|were) out\b|\blet out\b|\bsent anew\b|\bby hand\b|\bset aside\b|\bowed\b"
    r"|\broster\b|\bfloors?\b|\bis told\b|\bare told\b|\bheard\b|\bmend\b|\b(is|are|was|were) made\b|\bfolds? into\b"
    r"|\bnobody is\b|\bis silent\b|\blooks? (at|for|in|ahead)\b|\blooked (at|for|in)\b|\breleased\b"
)


def commands(page: Path) -> list[list[str]]:
    """The words of each `itinerary ...` line of the page's blocks that names one command, without comments."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    blocks = [block for language, block in fenced if language in ("", "sh")]
    lines = re.findall(r"(?:^|\| )itinerary (.+)$", "\n".join(blocks), re.MULTILINE)
    return [line.split(" #")[0].split() for line in lines if not re.match(r"\S+\|", line)]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for target, anchor in links(page):
        there = page.parent / target if target else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), f"{target}#{anchor}"


def test_the_small_packages_page_has_no_link_that_a_package_index_could_not_follow() -> None:
    page = (REPOSITORY / "workers" / "README.md").read_text("utf-8")
    assert [target for target in re.findall(r"\]\(([^)]+)\)", page) if not target.startswith("https://")] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_setting_that_is_named_is_one(page: Path) -> None:
    known = {name.upper() for name in Settings.model_fields} | OTHER_NAMES
    named = set(re.findall(rf"{PREFIX}([A-Z]\w*[A-Z])\b(?!_)", page.read_text("utf-8")))
    assert named <= known
    if page in CHAPTERS and page != SETTINGS:  # its heading says that the prefix is left out
        bare = re.findall(r"`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`", prose(page))
        assert {name.upper() for name in Settings.model_fields}.isdisjoint(bare), "without the prefix it sets nothing"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_figure_that_is_named_is_measured(page: Path) -> None:
    for name in set(re.findall(r"`(scheduler_(?!service)\w+[a-z])\b", page.read_text("utf-8"))):
        assert f'"{name}' in SOURCES, name


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_an_alert_that_is_named_is_one(page: Path) -> None:
    rules = (REPOSITORY / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
    named = re.findall(r"`(Itinerary[A-Z]\w+)`", page.read_text("utf-8"))
    assert [name for name in named if f"alert: {name}\n" not in rules and f"class {name}" not in SOURCES] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_command_of_deploy_and_a_suite_of_measurements_that_are_named_are_there(page: Path) -> None:
    program = (REPOSITORY / "deploy" / "__main__.py").read_text("utf-8")
    for command, first in re.findall(r"python3 deploy (\w+)(?: (\w+))?", page.read_text("utf-8")):
        assert f"python3 deploy {command}" in program
        if command == "bench" and first:
            assert first == "speed" or (REPOSITORY / "tests" / "benchmarks" / f"bench_{first}.py").exists(), first


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_call_of_the_api_that_is_named_is_in_its_document(page: Path) -> None:
    paths = DOCUMENT["paths"]
    known = {(method, re.sub(r"\{\w+\}", "{id}", path)) for path, calls in paths.items() for method in calls}
    for method, path in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (?:/api/v1)?(/[\w/{}]+)", prose(page)):
        assert (method.lower(), f"/api/v1{path}") in known, f"{method} {path}"


@cache
def program() -> Any:
    """The command line as Typer builds it, once for all commands that pages show."""
    return get_command(app)


@pytest.mark.parametrize(("page", "words"), [(page, words) for page in PAGES for words in commands(page)])
def test_a_command_that_is_shown_is_one_with_its_options(page: Path, words: list[str]) -> None:
    command: Any = program()
    while hasattr(command, "commands") and words:
        found = {name: command.commands.get(name) for name in words[0].split("|")}
        assert None not in found.values(), f"{page}: {words}"
        command, words = next(one for one in found.values() if one is not None), words[1:]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    passes_on = command.ignore_unknown_options
    options = {word.strip("[]") for word in words if word.strip("[]").startswith("--")}
    assert passes_on or options <= known, f"{page}: {options - known}"


def test_commands_are_found_in_the_tour() -> None:
    assert len(commands(TOUR)) > 20


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text("utf-8").splitlines()) <= LONGEST_README


def test_every_page_of_the_manual_is_in_its_contents_once_and_begins_with_its_title() -> None:
    assert sorted(target for target, _ in links(INDEX)) == sorted(path.name for path in CHAPTERS)
    assert all(path.read_text("utf-8").startswith("# ") for path in CHAPTERS)


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda path: path.stem)
def test_no_page_of_the_manual_has_two_headings_with_one_anchor(page: Path) -> None:
    assert len(anchors(page)) == len(set(anchors(page)))


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", INDEX, *CHAPTERS], ids=lambda path: path.stem)
def test_a_page_says_the_words_of_the_field(page: Path) -> None:
    said = re.sub(r"`[^`]*`", "", prose(page))
    assert [found[0] for found in re.finditer(OWN_WORDS, said, re.IGNORECASE)] == []


def test_a_line_of_the_log_that_is_quoted_where_something_fails_is_logged() -> None:
    marked = set(re.findall(r"`([^`\n]+)`", (MANUAL / "failures.md").read_text("utf-8"))) - NOT_LOGGED
    quoted = {text for text in marked if " " in text and not text.startswith(("itinerary ", "jobs ", "runs "))}
    joined = re.sub(r'"\s+f?"', "", SOURCES)
    pieces = {text: max(text.split("..."), key=len).strip(",: ") for text in quoted}
    assert len(pieces) > 12
    assert [text for text, piece in pieces.items() if piece not in joined] == []


def test_every_stored_name_of_the_glossary_is_one() -> None:
    rows = (MANUAL / "glossary.md").read_text("utf-8").partition("## Stored and public names")[2]
    names = [
        name for cell in re.findall(r"^\| (`[^|]+)\|", rows, re.MULTILINE) for name in re.findall(r"`([^`]+)`", cell)
    ]
    assert len(names) > 30
    spellings = '"{}"', '{{prefix}}{}"', " {}:"
    assert [name for name in names if not any(text.format(name) in SOURCES for text in spellings)] == []


def test_the_pictures_of_the_manual_are_shown_and_the_measured_one_is_the_latest() -> None:
    shown = {target for page in CHAPTERS for target, _ in links(page) if target.startswith("pictures/")}
    assert shown == {f"pictures/{path.name}" for path in (MANUAL / "pictures").iterdir()}
    measured = REPOSITORY / "tests" / "benchmarks" / "measured" / "burst.svg"
    assert (MANUAL / "pictures" / "burst.svg").read_bytes() == measured.read_bytes()


def test_the_help_of_deploy_names_each_option_of_up() -> None:
    group: Any = program()
    options = {option for parameter in group.commands["up"].params for option in parameter.opts} - {"--help", "-h"}
    shown = subprocess.run(
        [sys.executable, "deploy", "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    usage = re.findall(r"\[(--[\w-]+)", shown.stdout.partition("deploy test")[0])
    assert sorted(usage) == sorted(options)


def test_a_command_that_does_not_end_is_the_last_of_its_block_in_the_tour() -> None:
    tour = TOUR.read_text("utf-8").partition("## Ten-minute tour")[2].partition("\n## ")[0]
    blocks = [block for _, block in re.findall(r"^```(\w*)\n(.*?)^```", tour, re.MULTILINE | re.DOTALL)]
    endless = re.compile(r"(?:\S*/)?itinerary (?:up|leader|worker|api|flower)\b|python3 deploy up\b")
    found = [
        (block.splitlines(), n) for block in blocks for n, line in enumerate(block.splitlines()) if endless.match(line)
    ]
    assert len(found) > 1
    assert all(n == len(lines) - 1 for lines, n in found)
