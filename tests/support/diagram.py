"""The state diagram of the manual, made from the transition table."""

from scheduler_service.core.run_state import FINAL, TRANSITIONS, RunState


def state_diagram() -> str:
    """A Mermaid state diagram; arrows with the same ends are one arrow with all their events."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for event, move in TRANSITIONS.items():
        targets = [target for target in (move.target, move.spent, move.later) if target is not None]
        for source in sorted(move.sources):
            for target in targets:
                label = event.value if move.spent is None else f"{event.value} ({_left(target is move.target)})"
                if move.later is not None:
                    label = f"{event.value} ({'first' if target is move.target else 'later'} attempt)"
                arrows.setdefault((source.value, target.value), []).append(label)
    lines = [f"    {source} --> {target}: {', '.join(labels)}" for (source, target), labels in sorted(arrows.items())]
    ends = [f"    {state.value} --> [*]" for state in sorted(FINAL)]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {RunState.SCHEDULED.value}", *lines, *ends])


def _left(any_left: bool) -> str:
    return "attempts left" if any_left else "none left"
