"""An identity provider on loopback: discovery, keys, authorization code with PKCE, tokens, sign-out. It can misbehave.

`python -m tests.support.oidc_provider PORT` runs it. `POST /control` changes how it behaves: see `Behaviour`.
"""

import base64
import hashlib
import hmac
import json
import secrets
import sys
import time
import urllib.request
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.processes import PATIENCE, Child, free_port, project_env, wait_until

CLIENT: Final = "itinerary"
SECRET: Final = "client-secret-of-thirty-two-letters-or-more"


@dataclass
class Behaviour:
    """Who signs in, and what of the answer is wrong."""

    subject: str = "u-1"
    sid: str | None = None
    email: str | None = "jane@example.com"
    verified: Any = True
    groups: Any = field(default_factory=lambda: ["ops"])
    asks: bool = False
    """Shows a page with a button, as if for a password."""
    nonce: str | None = None
    audience: Any = None
    azp: str | None = None
    issuer: str | None = None
    expires_in: int = 300
    issued_in: int = 0
    algorithm: str = "RS256"
    unknown_key: bool = False
    id_token: bool = True
    error: str | None = None
    answer_issuer: str | None = None
    discovery_issuer: str | None = None
    token_status: int = 200
    down: bool = False
    now: int | None = None
    """Where its clock stands, in seconds: by a running one, what is a second too late is in time a second later."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: "Provider"

    def do_GET(self) -> None:
        """Documents, the page of the sign-in, the sign-out."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        state = self.server
        state.asked.append(self.path)
        if state.behaviour.down:
            self.answer(503, b"down", "text/plain")
            return
        match parts.path:
            case "/.well-known/openid-configuration":
                self.json(state.document())
            case "/jwks":
                self.json({"keys": [state.key.as_dict(private=False, use="sig", alg="RS256")]})
            case "/authorize":
                self.authorize(query)
            case "/favicon.ico":
                self.answer(200, b"", "image/x-icon")
            case "/logout":
                self.go(query["post_logout_redirect_uri"])
            case _:
                self.answer(404, b"", "text/plain")

    def do_POST(self) -> None:
        """Tokens for codes, and our own control."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/control":
            self.json(self.server.control(json.loads(body)))
            return
        if self.path == "/logout-token":
            self.json(self.server.logout_token(**json.loads(body)))
            return
        self.server.asked.append(self.path)
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if self.server.behaviour.token_status != 200:
            self.answer(self.server.behaviour.token_status, b"broken", "text/plain")
            return
        problem = self.server.problem(form, self.headers.get("Authorization", ""))
        self.json({"error": problem} if problem else self.server.tokens(form["code"]), 400 if problem else 200)

    def authorize(self, query: dict[str, str]) -> None:
        """Send the browser back with a code, after a button if it is to ask."""
        state, behaviour = self.server, self.server.behaviour
        assert query["client_id"] == CLIENT
        assert query["response_type"] == "code"
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        if behaviour.asks and "approve" not in query:
            approved = urlencode(query | {"approve": "yes"})
            page = f"<!doctype html><title>Provider</title><a id=approve href='/authorize?{approved}'>Sign in</a>"
            self.answer(200, page.encode(), "text/html")
            return
        back = {"state": query["state"]}
        if behaviour.answer_issuer:
            back["iss"] = behaviour.answer_issuer
        if behaviour.error:
            back |= {"error": behaviour.error, "error_description": "<b>no</b> & no"}
        else:
            code = secrets.token_urlsafe(16)
            state.codes[code] = query
            back |= {"code": code, "session_state": "ignored"}
        self.go(f"{query['redirect_uri']}?{urlencode(back)}")

    def go(self, place: str) -> None:
        """Redirect."""
        self.send_response(302)
        self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def json(self, value: Any, status: int = 200) -> None:
        """Answer with JSON."""
        self.answer(status, json.dumps(value).encode(), "application/json")

    def answer(self, status: int, body: bytes, kind: str) -> None:
        """Answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Provider(ThreadingHTTPServer):
    """The state of one provider."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.issuer = f"http://127.0.0.1:{port}"
        self.behaviour = Behaviour()
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.rotate()

    def rotate(self) -> None:
        """Sign with another key from now on."""
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})

    def control(self, wanted: dict[str, Any]) -> Any:
        """Behave so; say what was asked for until now."""
        if wanted.pop("rotate", False):
            self.rotate()
        else:
            self.behaviour = Behaviour(**wanted)
        asked, self.asked = self.asked, []
        return asked

    def now(self) -> int:
        """What its clock says."""
        return int(time.time()) if self.behaviour.now is None else self.behaviour.now

    def document(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.behaviour.discovery_issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize", "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks", "end_session_endpoint": f"{self.issuer}/logout",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }  # fmt: skip

    def problem(self, form: dict[str, str], authorization: str) -> str | None:
        """What is wrong with a request for tokens; each code counts once."""
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {basic}":
            return "invalid_client"
        asked = self.codes.get(form.get("code", ""))
        if asked is None or asked.get("used"):
            return "invalid_grant"
        asked["used"] = "yes"
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        matches = _base64(digest) == asked["code_challenge"]
        return None if matches and form.get("redirect_uri") == asked["redirect_uri"] else "invalid_grant"

    def tokens(self, code: str) -> dict[str, Any]:
        """The answer for a code."""
        how, now = self.behaviour, self.now()
        claims = {
            "iss": how.issuer or self.issuer, "sub": how.subject, "aud": how.audience or CLIENT, "azp": how.azp,
            "iat": now + how.issued_in, "exp": now + how.expires_in, "nonce": how.nonce or self.codes[code]["nonce"],
            "sid": how.sid, "email": how.email, "email_verified": how.verified, "groups": how.groups,
        }  # fmt: skip
        token = {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer"}
        given = {name: value for name, value in claims.items() if value is not None}
        return token | ({"id_token": self.signed(given)} if how.id_token else {})

    def logout_token(self, claims: dict[str, Any], typ: str | None) -> str:
        """A logout token with these claims in place of the right ones; None leaves one out."""
        now = self.now()
        right = {
            "iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": secrets.token_urlsafe(16),
            "sub": "u-1", "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }  # fmt: skip
        times = {name: now + value for name, value in claims.items() if name in ("iat", "exp") and value is not None}
        given = {name: value for name, value in (right | claims | times).items() if value is not None}
        return self.signed(given, {} if typ is None else {"typ": typ})

    def signed(self, claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
        """A token, signed as it is to be."""
        match self.behaviour.algorithm:
            case "none":
                return f"{_unsigned({'alg': 'none'}, claims)}."
            case "HS256":  # with what everybody knows, the public key: the library refuses to
                text = _unsigned({"alg": "HS256", "kid": self.key.kid}, claims)
                known = hmac.digest(self.key.as_pem(private=False), text.encode(), "sha256")
                return f"{text}.{_base64(known)}"
            case algorithm:
                key = RSAKey.generate_key(2048, {"kid": self.key.kid}) if self.behaviour.unknown_key else self.key
                return jwt.encode({"alg": algorithm, "kid": self.key.kid, **(header or {})}, claims, key)


def _unsigned(*parts: dict[str, Any]) -> str:
    return ".".join(_base64(json.dumps(part).encode()) for part in parts)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class RunningProvider(AbstractContextManager["RunningProvider"]):
    """The provider as a process of its own."""

    def __init__(self) -> None:
        self._port = free_port()
        self.issuer = f"http://127.0.0.1:{self._port}"
        self._child = self._new()

    def _new(self) -> Child:
        return Child([sys.executable, "-m", "tests.support.oidc_provider", str(self._port)], env=project_env())

    def __enter__(self) -> Self:
        self._child.__enter__()
        wait_until(self._answers, what="the identity provider")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, error, trace)

    def behaves(self, **how: Any) -> list[str]:
        """Behave so from now on; what was asked for until now."""
        known = {each.name for each in fields(Behaviour)} | {"rotate"}
        assert set(how) <= known, how
        body = json.dumps(how if how.get("rotate") else asdict(Behaviour(**how)))
        asked: list[str] = self._ask("/control", body)
        return asked

    def logout_token(self, typ: str | None = "logout+jwt", **claims: Any) -> str:
        """A logout token; `iat` and `exp` are seconds from now, None leaves a claim out."""
        token: str = self._ask("/logout-token", json.dumps({"claims": claims, "typ": typ}))
        return token

    def _ask(self, path: str, body: str) -> Any:
        with urllib.request.urlopen(f"{self.issuer}{path}", body.encode(), timeout=PATIENCE) as answer:
            return json.load(answer)

    def _answers(self) -> bool:
        try:
            self.behaves()
        except OSError:
            return False
        return True


if __name__ == "__main__":
    Provider(int(sys.argv[1])).serve_forever()
