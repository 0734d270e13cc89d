"""The command line `itinerary`: processes of this machine, and the API's jobs and runs from a terminal.

Exit status: 0 done, 1 the operation failed, 2 wrong usage. An error is one line on stderr that says what to do.
"""


def main() -> None:
    """The console entry; it imports what the wanted command needs, no more."""
    from scheduler_service.cli.program import run

    run()
