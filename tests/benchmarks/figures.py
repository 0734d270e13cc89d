"""What a benchmark gives: figures, each with its target or its peer, and how they are shown."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `target` is a limit in the same unit; `peer` is what else was measured in the same run,
    and `peer_value` its value: the ratio is ours to it.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    better: Literal["lower", "higher"] = "lower"
    peer: str | None = None
    peer_value: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target

    @property
    def ratio(self) -> float | None:
        """Ours divided by the peer's; None without a peer."""
        return self.value / self.peer_value if self.peer_value else None

    def body(self, suite: str) -> dict[str, Any]:
        """The figure as JSON."""
        return {
            "suite": suite,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "met": self.met,
            "peer": self.peer,
            "ratio": self.ratio,
        }


@dataclass(slots=True)
class Asked:
    """What the command line asks of a suite: a short version, pictures. `series` is what was measured against N in
    this run, by name, for the pictures and for the suite `growth`.
    """

    quick: bool = False
    plots: Path | None = None
    series: dict[str, dict[int, float]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def point(self, series: str, number: int, value: float) -> None:
        """Keep one measured point."""
        self.series.setdefault(series, {})[number] = value

    def kept(self, suite: str) -> dict[str, dict[int, float]]:
        """The series of a suite, whose names are `suite, unit: name`, by the rest of their names."""
        return {name.partition(": ")[2]: points for name, points in self.series.items() if name.startswith(suite)}

    def say(self, text: str) -> None:
        """Tell the person who waits."""
        spent = int(time.monotonic() - self.began)
        print(f"[{spent // 60:3d}:{spent % 60:02d}] {text}", file=sys.stderr, flush=True)


def table(bodies: Sequence[dict[str, Any]]) -> str:
    """The figures as aligned columns, for people."""
    rows = [("suite", "figure", "value", "target", "met", "peer", "ratio"), *map(_row, bodies)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _row(body: dict[str, Any]) -> tuple[str, ...]:
    target = "" if body["target"] is None else f"{body['target']:,.4g} {body['unit']}"
    met = {None: "", True: "yes", False: "NO"}[body["met"]]
    ratio = "" if body["ratio"] is None else f"{body['ratio']:.3g}"
    return (body["suite"], body["name"], f"{body['value']:,.4g} {body['unit']}", target, met, body["peer"] or "", ratio)
