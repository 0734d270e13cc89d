"""axe-core, which finds what keeps a page from readers with other senses; vendored, for tests only."""

from pathlib import Path
from typing import Final

from tests.support.browser import Browser

_AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"
_RUN: Final = """axe.run({exclude: ["datalist"]}, {resultTypes: ["violations"]}).then(found => found.violations.flatMap(
  rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 160)}`)))"""


def violations(browser: Browser) -> list[str]:
    """Return what is wrong with the open page: the rule and the element."""
    if not browser.run("'axe' in window"):
        browser.run(f"{_AXE.read_text('utf-8')};0")
    found: list[str] = browser.run(_RUN)
    return found
