"""`itinerary prune`: runs retention now, optionally with a shorter retention."""

from typing import Annotated

import typer

OlderThan = Annotated[
    str | None,
    typer.Option(
        help="Such as 30d, a day at least: everything older is deleted at once. Default: the setting RETENTION, and"
        " like a leader's sweep at most a day further than the last one."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
Json = Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")]


def prune(older_than: OlderThan = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Delete finished runs, missed ranges and records that are older, in small steps; leaders may run meanwhile."""
    import time
    from collections import Counter

    from itinerary.protocol.errors import BadValue
    from itinerary.protocol.instants import DAY, SECOND, Duration, format_instant, parse_duration
    from scheduler_service.cli.doctor import opened
    from scheduler_service.cli.output import print_json
    from scheduler_service.cli.progress import spinner
    from scheduler_service.config.settings import load_settings
    from scheduler_service.core.contract.pruning import Past, horizon, horizon_of, next_horizon
    from scheduler_service.loops.pruner import sweep
    from scheduler_service.sql.database import host_now
    from scheduler_service.sql.history import HISTORY_BOUNDS
    from scheduler_service.sql.pruning import SqlPruning
    from scheduler_service.sql.schema_version import check_schema

    settings = load_settings()
    kept = settings.retention if older_than is None else parse_duration(older_than, "--older-than")
    if kept < DAY:
        raise BadValue("--older-than", older_than, "give 1d or more: idempotency keys are promised for a day")

    def rested(rest: Duration) -> bool:
        time.sleep(rest / SECOND)
        return True

    gone: Counter[Past] = Counter()
    with opened(settings, HISTORY_BOUNDS) as database, spinner("pruning") as report:
        check_schema(database)
        store = SqlPruning(database)
        before = (next_horizon if older_than is None else horizon)(store.needs(), host_now(), kept)
        if before is not None and dry_run:
            gone.update({past: store.count(past, horizon_of(past, before, kept), 2**31) for past in Past})
        elif before is not None:
            for past, rows in sweep(store, None, before, kept, rested):
                gone[past] += rows
                report(f"{gone.total():,} rows deleted")
    if as_json:
        shown = None if before is None else format_instant(before)
        print_json({"before": shown, "dry_run": dry_run, "rows": {past.value: gone[past] for past in Past}})
    else:
        counts = ", ".join(f"{gone[past]:,} of {past}" for past in Past)
        print(f"{'would delete' if dry_run else 'deleted'} {counts}")
