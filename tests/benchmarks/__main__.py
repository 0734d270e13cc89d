"""`python3 deploy bench [suite ...] [--quick] [--json FILE] [--plots DIR] [--report DIR]`: measure these, or all.

A suite is a module `bench_<name>.py` beside this one with a function `figures(asked)` that gives Figures; `speed` names
all those about a leader. The exit status is 1 where a target was missed.
"""

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import report
from tests.benchmarks.figures import Asked, table

PREFIX: Final = "bench_"
SPEED: Final = ("burst", "sustained", "limits", "precision", "idle", "profile", "growth")
LAST: Final = "growth"  # shows what the others measured


def main() -> int:
    """Measure what the command line asks for."""
    known = sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob(f"{PREFIX}*.py"))
    parser = argparse.ArgumentParser(prog="deploy bench", description="measure, beside peers and limits")
    parser.add_argument("suite", nargs="*", help=f"{', '.join(known)}; speed: {', '.join(SPEED)}; default: all of them")
    parser.add_argument("--quick", action="store_true", help="a short version of each, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw pictures there")
    parser.add_argument("--report", type=Path, metavar="DIR", help="figures.json, pictures and a page of both there")
    given = parser.parse_args()
    if unknown := [suite for suite in given.suite if suite not in (*known, "speed")]:
        parser.error(f"there is no suite {unknown[0]!r}; there are {', '.join(known)}, and speed")
    if given.report:
        given.report.mkdir(parents=True, exist_ok=True)
    asked = Asked(given.quick, given.plots or given.report)
    suites = [one for suite in given.suite or known for one in (SPEED if suite == "speed" else (suite,))]
    suites = sorted(dict.fromkeys(suites), key=lambda suite: suite == LAST)
    bodies: list[dict[str, Any]] = []
    for number, suite in enumerate(suites, start=1):
        asked.say(f"{suite} ({number} of {len(suites)})")
        bodies += measure(suite, asked)
        for path in filter(None, (given.json, given.report and given.report / "figures.json")):
            # After each: a suite that breaks takes nothing of the others with it.
            path.write_text(json.dumps(bodies, indent=2) + "\n")
    if given.report:
        report.write(given.report, bodies, given.suite, time.monotonic() - asked.began)
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
