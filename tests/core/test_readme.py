"""What the README shows is what the code says."""

from pathlib import Path

from tests.support.diagram import state_diagram

README = Path(__file__).parents[2] / "README.md"


def test_the_state_diagram_is_the_transition_table() -> None:
    assert f"```mermaid\n{state_diagram()}\n```" in README.read_text("utf-8")
