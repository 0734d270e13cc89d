"""A run's progress as text and as a percentage, for people. Pure."""

from collections.abc import Mapping
from typing import Any


def progress_text(shown: Mapping[str, Any]) -> str:
    """`412 of 1,000 rows`, or `412 rows` where the total is not known."""
    total = "" if shown["total"] is None else f" of {_number(shown['total'])}"
    return f"{_number(shown['done'])}{total} {shown['unit']}".rstrip()


def percent(shown: Mapping[str, Any]) -> int | None:
    """How much of the total is done, 100 at most; None where the total is not known."""
    done, total = shown["done"], shown["total"]
    if total is None:
        return None
    return 100 if done >= total else int(100 * done / total)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
