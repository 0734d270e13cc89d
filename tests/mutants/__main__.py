"""`python3 deploy test --mutants [core] [core/planning] [workers]`: whether the tests notice small wrong changes.

Prints each mutant as it is judged, then the score and the survivors; the exit status is 1 where one survived.
"""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.mutants.listed import complaints, mutants
from tests.mutants.running import Outcome, UnsoundTests, Verdict, judged


def main() -> int:
    """Judge the mutants that the command line names."""
    parser = argparse.ArgumentParser(prog="deploy test --mutants", description="judge the tests by small wrong changes")
    parser.add_argument("scope", nargs="*", help="files or folders such as core, core/planning, workers; default: all")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    given = parser.parse_args()
    if wrong := complaints():
        print("\n".join(wrong), file=sys.stderr)
        return 2
    chosen = mutants(given.scope)
    if not chosen:
        parser.error(f"no mutant lies in {' or '.join(given.scope)}; --list names them all")
    if given.list:
        print(
            "\n".join(f"{one}{'' if one.equivalent is None else f' (equivalent: {one.equivalent})'}" for one in chosen)
        )
        return 0
    told = [one for one in chosen if one.equivalent is None]
    print(
        f"{len(told)} mutants, {len(chosen) - len(told)} more are equivalent; first the tests without any", flush=True
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    verdicts: list[Verdict] = []
    try:
        with tempfile.TemporaryDirectory(prefix="itinerary-mutants-") as folder:
            for verdict in judged(told, Path(folder), max(1, given.jobs)):
                verdicts.append(verdict)
                where = f"[{len(verdicts):3} of {len(told)}] {verdict.seconds:5.1f} s"
                print(f"{where}  {verdict.outcome.value:8}  {verdict.mutant}", flush=True)
    except UnsoundTests as failure:
        print(f"{failure}\nthe tests fail without a mutant: mend them first", file=sys.stderr)
        return 2
    return tell(verdicts)


def tell(verdicts: list[Verdict]) -> int:
    """Print the score and what was not noticed; the exit status."""
    left = [verdict for verdict in verdicts if not verdict.is_killed]
    for verdict in left:
        mutant = verdict.mutant
        print(f"\n{verdict.outcome.value}: {mutant}\n  - {mutant.find.strip()}\n  + {mutant.replace.strip()}")
        print(f"  tests: {', '.join(mutant.tests)}")
        if verdict.outcome is Outcome.BROKEN:
            print(verdict.output)
    killed, spent = len(verdicts) - len(left), sum(verdict.seconds for verdict in verdicts)
    print(f"\n{killed} of {len(verdicts)} noticed ({killed / len(verdicts):.0%}), {spent:.0f} s of tests")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
