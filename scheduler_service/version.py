"""The version of the server; a test holds it equal to pyproject.toml's and to the small package's."""

from typing import Final

VERSION: Final = "0.1.0"
