"""Pictures of what was measured. matplotlib is loaded only where one is asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


def against_n(path: Path, title: str, unit: str, series: Mapping[str, Mapping[int, float]]) -> None:
    """Lines over N on two logarithmic axes; a fitted exponent stands beside the name of a line of three points."""
    axes, save = _figure(path, title)
    for name, points in series.items():
        numbers = sorted(points)
        values = [points[n] for n in numbers]
        fitted = f" ~ N^{exponent(points):.2f}" if len(numbers) > 2 else ""
        axes.plot(numbers, values, marker="o", label=name + fitted)
    axes.set(xscale="log", yscale="log", xlabel="N", ylabel=unit)
    axes.legend()
    save()


def over_time(path: Path, title: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Lines over seconds."""
    axes, save = _figure(path, title)
    for name, points in series.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name)
    axes.set(xlabel="seconds", ylabel=unit)
    axes.set_ylim(bottom=0)
    axes.legend()
    save()


def bars(path: Path, title: str, unit: str, values: Mapping[str, float], *, log: bool = False) -> None:
    """One bar for each name."""
    axes, save = _figure(path, title)
    drawn = axes.barh(list(reversed(values)), list(reversed(values.values())))
    axes.bar_label(drawn, fmt=lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}", padding=3)
    axes.margins(x=0.2)
    axes.set(xlabel=unit, xscale="log" if log else "linear")
    save()


def exponent(points: Mapping[int, float]) -> float:
    """The slope of log(value) over log(N), by least squares."""
    numbers = np.log([float(n) for n in points])
    return float(np.polyfit(numbers, np.log(list(points.values())), 1)[0])


def _figure(path: Path, title: str):  # type: ignore[no-untyped-def]  # matplotlib's types are not loaded here
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": path.name})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)

    def save() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Date": None})
        plt.close(figure)

    return axes, save
