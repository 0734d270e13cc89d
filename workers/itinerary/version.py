"""The version of this program; a test holds it equal to pyproject.toml's."""

from typing import Final

VERSION: Final = "0.1.0"
