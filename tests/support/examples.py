"""How many values a property of hypothesis is tried with."""

from hypothesis import settings

WHOLE_RUN = 100


def examples(number: int) -> int:
    """So many in the whole run, in the fast part as much fewer as tests/conftest.py has it."""
    return -(-number * settings().max_examples // WHOLE_RUN)
