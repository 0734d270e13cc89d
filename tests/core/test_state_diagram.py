"""The manual's diagram of states is the table of transitions."""

from tests.support.diagram import state_diagram
from tests.support.processes import MANUAL


def test_the_state_diagram_is_the_transition_table() -> None:
    assert f"```mermaid\n{state_diagram()}\n```" in (MANUAL / "runs.md").read_text("utf-8")
