"""The output of `itinerary jobs backfill`: occurrences to run, their first times, and the reasons for the others."""

from collections.abc import Mapping
from typing import Any, Final

_WHY: Final = (("completed", "completed"), ("active", "under way"), ("planned", "waiting already"))


def print_backfill(answer: Mapping[str, Any]) -> None:
    """Print the API's answer as text."""
    from scheduler_service.cli.output import print_message, when

    found = f"{answer['occurrences']} occurrence{'' if answer['occurrences'] == 1 else 's'}"
    print_message(f"{found} of {answer['job_id']} from {when(answer['from'])} up to {when(answer['to'])}")
    left_out = [f"{answer['left_out'][name]} {text}" for name, text in _WHY if answer["left_out"][name]]
    if left_out:
        print_message(f"left out: {', '.join(left_out)}")
    print_message(_doing(answer))
    if answer["runs"]:
        for at in answer["first"]:
            print_message(f"  {when(at)}")
        if answer["runs"] > len(answer["first"]):
            print_message(f"  and {answer['runs'] - len(answer['first'])} more")
    for warning in answer["warnings"]:
        print_message(f"warning: {warning}")


def _doing(answer: Mapping[str, Any]) -> str:
    if not answer["runs"]:
        return "there is nothing to run"
    runs = f"{answer['runs']} run{'' if answer['runs'] == 1 else 's'}"
    how = "one after the other" if answer["overlap"] == "queue_all" else "all at once"
    return f"{runs} would be created, to run {how}" if answer["dry_run"] else f"{runs} created, to run {how}"
