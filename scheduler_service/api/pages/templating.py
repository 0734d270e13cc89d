"""Pages from templates, with the headers of every page.

Promises: no script or style from elsewhere, none inside the page (strict Content-Security-Policy), and every user's
text is escaped.
"""

import re
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from scheduler_service.api.pages.assets import asset
from scheduler_service.api.pages.moments import sentence_times, typed_time
from scheduler_service.api.pages.reader_zone import reader_zone, zone_query

HERE: Final = Path(__file__).parent
_ONLY_OURS: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; style-src 'self'{}; "
    "font-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {"Content-Security-Policy": _ONLY_OURS.format("")}
# Swagger UI sets style attributes; its page shows the API's own document only.
DOCS_HEADERS: Final = {"Content-Security-Policy": _ONLY_OURS.format(" 'unsafe-inline'")}
templates: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def in_code(text: str) -> Markup:
    """Escape a text and show as code what stands between backticks in it."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


templates.filters["code"] = in_code
templates.filters["times"] = sentence_times
templates.filters["typed"] = typed_time
templates.globals["zone_name"] = lambda: reader_zone().name
templates.globals["zone_query"] = zone_query
templates.globals["asset"] = asset


def part(template: str, **values: Any) -> HTMLResponse:
    """Render a page, or a part of one."""
    return HTMLResponse(templates.get_template(template).render(**values), 200, PAGE_HEADERS)
