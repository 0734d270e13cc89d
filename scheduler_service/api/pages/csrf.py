"""The CSRF token that each form carries, against pages of other sites. No server state.

A random seed is kept in a cookie that scripts cannot read and other sites cannot send. The form's token is signed with
that seed and the caller's token or session, so it is valid for this browser and caller only. Parses forms too (`Form`).
"""

import hashlib
import hmac
import secrets
from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from scheduler_service.api.http.auth import presented_token
from scheduler_service.api.http.bodies import check_text, raw_body
from scheduler_service.api.http.problems import Problem, malformed
from scheduler_service.api.http.sessions import presented_session
from scheduler_service.api.pages.reader_zone import PARAMETER, UTC, absolute

COOKIE: Final = "itinerary_form"
FIELD: Final = "csrf"
HEADER: Final = "x-itinerary-csrf"
_MOST_FIELDS: Final = 1000


def fresh_seed() -> str:
    """Return the seed that a browser gets on its first page."""
    return secrets.token_urlsafe(24)


def csrf_of(request: Request, seed: str) -> str:
    """Return the token of this browser and this caller: of its session, so none outlives a sign-in or sign-out."""
    login = presented_token(request.headers.get("authorization", "")) or presented_session(request)
    return hmac.new(f"{login}\n{seed}".encode("utf-8", "replace"), b"itinerary form", hashlib.sha256).hexdigest()


class Form:
    """The fields of a form, in the order in which they arrived."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def one(self, name: str) -> str:
        """Return the value of a field, stripped; empty if absent."""
        return next((value.strip() for key, value in self._fields if key == name), "")

    def time(self, name: str) -> str:
        """Return a time as RFC 3339, by the zone in which the form was shown; what is no time as it was typed."""
        return absolute(self.one(name), self.one(PARAMETER) or UTC)

    def texts(self) -> dict[str, str]:
        """Return every text field by its name."""
        return dict(self._fields)

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return [value for key, value in self._fields if key == name]


def form_of(raw: Annotated[bytes, Depends(raw_body)]) -> Form:
    """Parse the body as a form; Problem 400 if it is not one, 422 for a text that cannot be stored."""
    try:
        fields = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as exc:
        raise malformed("the body is not a form") from exc
    for name, value in fields:
        check_text(value, (), name)
    # Browsers send each line ending as CR LF.
    return Form([(name, value.replace("\r\n", "\n")) for name, value in fields])


FormBody = Annotated[Form, Depends(form_of)]


def require_csrf(request: Request, form: FormBody) -> None:
    """Raise Problem 403 unless one of our pages gave the form to this browser and this caller. A dependency."""
    seed = request.cookies.get(COOKIE, "")
    sent = request.headers.get(HEADER) or form.one(FIELD)
    if not seed or not hmac.compare_digest(csrf_of(request, seed).encode(), sent.encode()):
        raise Problem(
            403,
            "this form is out of date or was not sent by a page of ours; reload the page and repeat",
            kind="form-outdated",
        )
