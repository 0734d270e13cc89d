"""What `itinerary jobs backfill` tells: how many occurrences run, from when on, and why others do not."""

from typing import Any, Final

_WHY: Final = (("completed", "completed"), ("active", "under way"), ("planned", "waiting already"))


def print_backfill(said: dict[str, Any]) -> None:
    """The answer of the API in words."""
    from scheduler_service.cli.output import say, when

    found = f"{said['occurrences']} occurrence{'' if said['occurrences'] == 1 else 's'}"
    say(f"{found} of {said['job_id']} from {when(said['from'])} up to {when(said['to'])}")
    left_out = [f"{said['left_out'][name]} {words}" for name, words in _WHY if said["left_out"][name]]
    if left_out:
        say(f"left out: {', '.join(left_out)}")
    say(_doing(said))
    if said["runs"]:
        for at in said["first"]:
            say(f"  {when(at)}")
        if said["runs"] > len(said["first"]):
            say(f"  and {said['runs'] - len(said['first'])} more")
    for warning in said["warnings"]:
        say(f"mind: {warning}")


def _doing(said: dict[str, Any]) -> str:
    if not said["runs"]:
        return "there is nothing to run"
    runs = f"{said['runs']} run{'' if said['runs'] == 1 else 's'}"
    how = "one after the other" if said["overlap"] == "queue_all" else "all at once"
    return f"{runs} would be made, to go {how}" if said["dry_run"] else f"{runs} made, to go {how}"
