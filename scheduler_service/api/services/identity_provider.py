"""The identity provider, by OpenID Connect: its documents, the redirect there, and the answer checked.

Promises: an identity counts only with a signature by a key of the provider, for this client, of this sign-in and in
time. Each request to the provider ends within seconds. Imported only where the settings name a provider.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import requests
from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped]
from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped]
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from itinerary.protocol.errors import ItineraryError
from scheduler_service.core.sign_ins import SignIn
from scheduler_service.runtime.addresses import is_loopback

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""By public keys only: none and HMAC would let others than the provider sign."""
LEEWAY: Final = 60
_TIMEOUT: Final = 5
_MOST_BYTES: Final = 256 * 1024
_FRESH: Final = 3600.0
_RETRY_KEYS_AFTER: Final = 10.0
_DOCUMENT: Final = "/.well-known/openid-configuration"


class ProviderDown(ItineraryError):
    """The provider does not answer, or not as OpenID Connect says."""


class IdentityRefused(ItineraryError):
    """The provider refused, or what it answered is not accepted."""


@dataclass(frozen=True, slots=True)
class Client:
    """This service as the provider knows it."""

    issuer: str
    client_id: str
    secret: str | None
    scopes: str
    redirect_uri: str


class IdentityProvider:
    """One provider; keeps its document and keys for an hour. Safe to use from several threads."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._document: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    @property
    def issuer(self) -> str:
        """The issuer of its tokens."""
        return self._client.issuer

    @property
    def client_id(self) -> str:
        """The audience of its tokens."""
        return self._client.client_id

    @property
    def host(self) -> str:
        """The name to show to people."""
        return urlsplit(self._client.issuer).netloc

    def sign_in_address(self, state: str, sign_in: SignIn) -> str:
        """Return where to send the browser."""
        endpoint = self._endpoint("authorization_endpoint")
        address, _ = self._session().create_authorization_url(
            endpoint, state=state, nonce=sign_in.nonce, code_verifier=sign_in.verifier
        )
        return str(address)

    def sign_out_address(self, id_token: str | None, come_back_to: str) -> str | None:
        """Return where a browser signs out of the provider as well; None if it has no such place or does not answer."""
        try:
            endpoint = self._endpoint("end_session_endpoint")
        except ProviderDown:
            return None
        asked = {"client_id": self._client.client_id, "post_logout_redirect_uri": come_back_to}
        hint = {} if id_token is None else {"id_token_hint": id_token}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked | hint)}"

    def identity(self, answer: Mapping[str, str], sign_in: SignIn, now: int) -> tuple[str, Mapping[str, Any]]:
        """Exchange the code of the provider's answer; return the identity token and its checked claims."""
        issuer = answer.get("iss", self._client.issuer)
        required = self._known().get("authorization_response_iss_parameter_supported") is True
        if issuer != self._client.issuer or (required and "iss" not in answer):
            raise IdentityRefused(f"the answer is of another issuer than {self._client.issuer}")
        if "error" in answer:
            text = answer.get("error_description") or answer["error"]
            raise IdentityRefused(f"{self.host} refused: {text[:200]}")
        token = self._exchange(answer.get("code", ""), sign_in.verifier)
        id_token = token.get("id_token")
        if not isinstance(id_token, str):
            raise IdentityRefused(f"{self.host} gave no identity token; is openid among ITINERARY_OIDC_SCOPES?")
        return id_token, self._checked(id_token, sign_in.nonce, token.get("access_token"), now)

    def _exchange(self, code: str, verifier: str) -> Mapping[str, Any]:
        try:
            token: Mapping[str, Any] = self._session().fetch_token(
                self._endpoint("token_endpoint"), grant_type="authorization_code", code=code, code_verifier=verifier,
                redirect_uri=self._client.redirect_uri, timeout=_TIMEOUT, allow_redirects=False,
            )  # fmt: skip
        except AuthlibBaseError as exc:
            raise IdentityRefused(f"{self.host} did not accept the code ({exc.error}): sign in again") from exc
        except (requests.RequestException, ValueError) as exc:
            raise ProviderDown(self._down(exc)) from exc
        return token

    def _checked(self, id_token: str, nonce: str, access_token: Any, now: int) -> Mapping[str, Any]:
        try:
            token = self.verified(id_token)
            options = {
                "iss": {"essential": True, "value": self._client.issuer},
                "aud": {"essential": True, "value": self._client.client_id},
            }
            params = {"nonce": nonce, "client_id": self._client.client_id, "access_token": access_token}
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(now=now, leeway=LEEWAY)
        except (JoseError, AuthlibBaseError, ValueError) as exc:
            raise IdentityRefused(f"the identity token of {self.host} is not accepted: {reason_of(exc)}") from exc
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise IdentityRefused(f"the identity token of {self.host} names nobody")
        return dict(claims)

    def verified(self, text: str) -> jwt.Token:
        """Check the signature of a token; once more with the keys asked for again, if they may have been rotated."""
        offered = self._known().get("id_token_signing_alg_values_supported", _ALGORITHMS)
        algorithms = [name for name in _ALGORITHMS if name in offered]
        keys, fetched = self._key_set(again=False)
        try:
            return jwt.decode(text, keys, algorithms)
        except (InvalidKeyIdError, BadSignatureError, ValueError):
            if self._clock() - fetched < _RETRY_KEYS_AFTER:
                raise
        return jwt.decode(text, self._key_set(again=True)[0], algorithms)

    def _key_set(self, *, again: bool) -> tuple[KeySet, float]:
        with self._lock:
            kept = self._keys
        if kept is not None and not again and self._clock() - kept[0] < _FRESH:
            return kept[1], kept[0]
        found = self._get(self._endpoint("jwks_uri"))
        try:
            fresh = (self._clock(), KeySet.import_key_set(found))  # type: ignore[arg-type]  # checked by the library
        except (JoseError, ValueError, KeyError, TypeError) as exc:
            raise ProviderDown(f"the keys of {self.host} cannot be read: {reason_of(exc)}") from exc
        with self._lock:
            self._keys = fresh
        return fresh[1], fresh[0]

    def _endpoint(self, name: str) -> str:
        """Return an address of the provider's document: HTTPS, or on this machine as the issuer is."""
        address = self._known().get(name)
        if not isinstance(address, str):
            raise ProviderDown(f"the discovery document of {self.host} names no {name}")
        parts = urlsplit(address)
        issuer = urlsplit(self._client.issuer)
        is_local = issuer.scheme == "http" and parts.scheme == "http" and is_loopback(parts.hostname or "")
        if parts.scheme != "https" and not is_local:
            raise ProviderDown(f"the {name} of {self.host} is not an https:// address")
        return address

    def _known(self) -> Mapping[str, Any]:
        with self._lock:
            kept = self._document
        if kept is not None and self._clock() - kept[0] < _FRESH:
            return kept[1]
        found = self._get(self._client.issuer.rstrip("/") + _DOCUMENT)
        if found.get("issuer") != self._client.issuer:
            named = f"ITINERARY_OIDC_ISSUER is {self._client.issuer}"
            raise ProviderDown(f"the discovery document of {self.host} is of {found.get('issuer')!r}; {named}")
        with self._lock:
            self._document = (self._clock(), found)
        return found

    def _get(self, url: str) -> Mapping[str, Any]:
        try:
            with requests.get(url, timeout=_TIMEOUT, allow_redirects=False, stream=True) as answer:
                if answer.status_code != 200:
                    raise ProviderDown(f"{self.host} answers {answer.status_code} for {urlsplit(url).path}")
                text = answer.raw.read(_MOST_BYTES + 1, decode_content=True)
        except requests.RequestException as exc:
            raise ProviderDown(self._down(exc)) from exc
        try:
            found = json.loads(text) if len(text) <= _MOST_BYTES else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ProviderDown(f"{self.host} does not answer with JSON for {urlsplit(url).path}")
        return found

    def _down(self, exc: Exception) -> str:
        return f"{self.host} does not answer ({type(exc).__name__})"

    def _session(self) -> OAuth2Session:
        known = self._known().get("token_endpoint_auth_methods_supported", ("client_secret_basic",))
        by_post = "client_secret_basic" not in known and "client_secret_post" in known
        method = "client_secret_post" if by_post else "client_secret_basic"
        return OAuth2Session(
            self._client.client_id, self._client.secret, scope=self._client.scopes,
            token_endpoint_auth_method=method if self._client.secret else "none",
            redirect_uri=self._client.redirect_uri, code_challenge_method="S256",
        )  # fmt: skip


def reason_of(exc: Exception) -> str:
    """Return what a library says is wrong, in brief."""
    return (str(getattr(exc, "description", "") or str(exc)) or type(exc).__name__)[:200]
