"""The size of a list, in the form that pages show. Pure."""

from scheduler_service.ports.history import Total


def total_text(shown: int, total: Total, what: str, most: int = 10_000) -> str:
    """Format `50 of 4,916 runs`; if counting ended before the list did, `50 of more than 10,000 runs`."""
    number = f"{total.number:,}"
    if not total.more:
        return f"{shown:,} of {number} {what}" if total.number > shown else f"{number} {what}"
    if total.number <= shown or total.number >= most:
        return f"{shown:,} of more than {max(total.number, shown):,} {what}"
    return f"{shown:,} of {number} {what} or more"
