"""`python3 deploy bench [suite] [--json FILE]`: run one suite of figures, or all, and show them.

A suite is a module `bench_<name>.py` beside this one with a function `figures()` that gives Figures.
The exit status is 1 where a target was missed.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import table

PREFIX = "bench_"


def main() -> int:
    """Measure what the command line asks for."""
    known = sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob(f"{PREFIX}*.py"))
    parser = argparse.ArgumentParser(prog="deploy bench", description="measure, beside peers and limits")
    parser.add_argument("suite", nargs="?", choices=known, help="default: all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    asked = parser.parse_args()
    bodies = [body for suite in ([asked.suite] if asked.suite else known) for body in measure(suite)]
    print(table(bodies))
    if asked.json:
        asked.json.write_text(json.dumps(bodies, indent=2) + "\n")
    return 1 if any(body["met"] is False for body in bodies) else 0


def measure(suite: str) -> list[dict[str, Any]]:
    """The figures of one suite as JSON."""
    print(f"{suite} ...", file=sys.stderr, flush=True)
    module = importlib.import_module(f"tests.benchmarks.{PREFIX}{suite}")
    return [figure.body(suite) for figure in module.figures()]


if __name__ == "__main__":
    sys.exit(main())
