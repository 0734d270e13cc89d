"""`itinerary schedule ...`: the load of the next 24 hours, and the rebalance."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.status import Json

schedule = typer.Typer(help="The load of the next 24 hours, and rebalancing it.", no_args_is_help=True)

_BAR: Final = 40
_QUARTERS: Final = 4
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_HEAT: Final = "·▁▂▃▄▅▆▇█"


@schedule.command("distribution")
def distribution(as_json: Json = False) -> None:
    """Show the runs of the next 24 hours, hour by hour in UTC, with their quarters."""
    from scheduler_service.cli.output import print_json, print_message

    with open_client() as client:
        seen = client.distribution()
    if as_json:
        print_json(seen)
        return
    loads = [slot["job_count"] for slot in seen["slot_distribution"]]
    first = seen["window_start"]
    print_message(f"Runs an hour, in UTC, from {first[:10]} {first[11:16]} on for {seen['window_hours']} hours")
    for line in bars(first, loads, plain=not _can_draw()):
        print_message(line)
    print_message(f"{seen['total_jobs']} jobs, {sum(loads)} runs; score {seen['distribution_score']:.2f} (1 is even)")
    print_message(f"{seen['suggestion']}.")


@schedule.command("rebalance")
def rebalance(
    preview: Annotated[
        bool, typer.Option("--preview", help="Only show the moves, and the reasons against others.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last rebalance.")] = False,
    plan: Annotated[str | None, typer.Option(help="Carry out this plan of a preview.")] = None,
    as_json: Json = False,
) -> None:
    """Even out the jobs that the scheduler places; their intervals stay."""
    from scheduler_service.cli.output import print_json

    if preview + undo + (plan is not None) > 1:
        raise BadValue("--preview, --undo and --plan", "...", "give one of them")
    with open_client() as client:
        answer: Mapping[str, Any]
        if preview:
            answer = client.preview_rebalance()
        elif undo:
            answer = client.undo_rebalance()
        else:
            answer = client.rebalance(plan)
    if as_json:
        print_json(answer)
    elif preview:
        _print_preview(answer)
    else:
        _print_result(answer)


def bars(first: str, loads: list[int], *, plain: bool = False) -> list[str]:
    """Yield a line for each hour from the slot `first` (RFC 3339) on; `plain` draws with ASCII only."""
    offset = int(first[14:16]) // 15
    padded = [0] * offset + loads
    hours = [padded[n : n + _QUARTERS] for n in range(0, len(padded), _QUARTERS)]
    totals = [sum(hour) for hour in hours]
    most, heaviest = max(totals, default=0), max(loads, default=0)
    start = int(first[11:13])
    return [
        f"{(start + n) % 24:02d}:00  {_heat(hour, heaviest, plain)}  {_bar(total, most, plain)} {total}".rstrip()
        for n, (hour, total) in enumerate(zip(hours, totals, strict=True))
    ]


def _heat(quarters: list[int], heaviest: int, plain: bool) -> str:
    marks = ".:-=+*#%@" if plain else _HEAT
    cells = [marks[-(-load * (len(marks) - 1) // heaviest)] if heaviest else marks[0] for load in quarters]
    return "".join(cells).ljust(_QUARTERS)


def _bar(total: int, most: int, plain: bool) -> str:
    eighths = total * _BAR * 8 // most if most else 0
    whole, part = divmod(eighths, 8)
    if plain:
        return "#" * whole
    return "█" * whole + (_EIGHTHS[part] if part else "")


def _can_draw() -> bool:
    try:
        "█▏▁".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _print_preview(plan: Mapping[str, Any]) -> None:
    from scheduler_service.cli.output import print_message, print_table, when

    rows = [(move["job_id"], when(move["current_time"]), when(move["proposed_time"])) for move in plan["preview"]]
    print_table(["job", "next run", "would be"], rows, "nothing would be moved", whole=("job",))
    _say_skips(plan["skipped"])
    print_message(
        f"would move {plan['would_move']}, leave {plan['would_skip']}; "
        f"score {plan['current_score']:.2f} -> {plan['projected_score']:.2f}"
    )
    if plan["would_move"]:
        print_message(f"carry it out within ten minutes: itinerary schedule rebalance --plan {plan['plan_id']}")


def _print_result(result: Mapping[str, Any]) -> None:
    from scheduler_service.cli.output import print_message, print_table, when

    rows = [(move["job_id"], when(move["old_time"]), when(move["new_time"])) for move in result["moved"]]
    print_table(["job", "next run was", "is now"], rows, "nothing was moved", whole=("job",))
    _say_skips(result["skipped"])
    print_message(
        f"moved {len(result['moved'])}, left {len(result['skipped'])}; "
        f"score {result['new_distribution_score']:.2f} (1 is even)"
    )


def _say_skips(skips: list[dict[str, str]]) -> None:
    from scheduler_service.cli.output import print_message

    by_reason: dict[str, list[str]] = {}
    for skip in skips:
        by_reason.setdefault(skip["reason"], []).append(skip["job_id"])
    for reason, job_ids in by_reason.items():
        named = ", ".join(job_ids[:5]) + (f" and {len(job_ids) - 5} more" if len(job_ids) > 5 else "")
        print_message(f"left ({reason.replace('_', ' ')}): {named}")
