"""How much of a process's time the garbage collector takes. Standard library only: the command line starts with it."""

import atexit
import gc


def collect_rarely() -> None:
    """Spare the collector what stays: a search of all modules after every 700 new objects, and once more at the end.

    A command that lists jobs spends two thirds of its CPU time on that.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def keep_loaded() -> None:
    """Take all that is loaded so far for lasting: no search reads it again.

    A search of the API's modules stops all its threads for a tenth of a second, in the middle of a request.
    """
    gc.freeze()
