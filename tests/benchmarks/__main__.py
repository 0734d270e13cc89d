"""`python3 deploy bench [suite ...] [--quick] [--json FILE] [--plots DIR]`: measure these, or all, and show them.

A suite is a module `bench_<name>.py` beside this one with a function `figures(asked)` that gives Figures.
The exit status is 1 where a target was missed.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Asked, table

PREFIX = "bench_"
LAST = ("growth",)  # shows what the others measured


def main() -> int:
    """Measure what the command line asks for."""
    known = sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob(f"{PREFIX}*.py"))
    parser = argparse.ArgumentParser(prog="deploy bench", description="measure, beside peers and limits")
    parser.add_argument("suite", nargs="*", help=f"default: all of them; {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="a short version of each, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw pictures there")
    given = parser.parse_args()
    if unknown := [suite for suite in given.suite if suite not in known]:
        parser.error(f"there is no suite {unknown[0]!r}; there are {', '.join(known)}")
    asked = Asked(given.quick, given.plots)
    suites = sorted(given.suite or known, key=lambda suite: suite in LAST)
    bodies: list[dict[str, Any]] = []
    for number, suite in enumerate(suites, start=1):
        asked.say(f"{suite} ({number} of {len(suites)})")
        bodies += measure(suite, asked)
        if given.json:  # after each: a suite that breaks takes nothing of the others with it
            given.json.write_text(json.dumps(bodies, indent=2) + "\n")
    print(table(bodies))
    return 1 if any(body["met"] is False for body in bodies) else 0


def measure(suite: str, asked: Asked) -> list[dict[str, Any]]:
    """The figures of one suite as JSON, told one by one as they come."""
    module = importlib.import_module(f"tests.benchmarks.{PREFIX}{suite}")
    bodies = []
    for figure in module.figures(asked):
        beside = f"; {figure.peer}: {figure.peer_value:,.4g}" if figure.peer and figure.peer_value else ""
        asked.say(f"  {figure.name}: {figure.value:,.4g} {figure.unit}{beside}")
        bodies.append(figure.body(suite))
    return bodies


if __name__ == "__main__":
    sys.exit(main())
