"""A small OpenID Connect provider on a real socket: one client, one person at a time.

Authorization code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core 1.0).
"""

import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from agent.tests.http_sites import serving

CLIENT_ID, CLIENT_SECRET = "webprofile", "a secret between two machines"


@cache
def signing_key() -> rsa.RSAPrivateKey:
    """Return the key of all providers. Processes that only collect tests do not need it."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider:
    """An identity provider at which `person` is logged in.

    claims: override those of the ID token
    denies: whether it rejects logins
    """

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.person = {"sub": "42", "email": "alice@example.com", "email_verified": True}
        self.claims: dict[str, Any] = {}
        self.denies = False
        self.codes: dict[str, dict[str, str]] = {}

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Return the URL to which the browser is redirected after a login."""
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code"
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        if self.denies:
            answer = {"error": "access_denied", "state": query["state"]}
        else:
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            answer = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Exchange a code for tokens, once; return None if the request is not valid."""
        request = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        proof = (form.get("client_id"), form.get("client_secret"), form.get("redirect_uri"))
        if not request or challenge != request["code_challenge"]:
            return None
        if proof != (CLIENT_ID, CLIENT_SECRET, request["redirect_uri"]):
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 60}
        claims |= self.person | self.claims
        id_token = jwt.encode(claims, signing_key(), algorithm="RS256", headers={"kid": "1"})
        return {"access_token": "open sesame", "token_type": "Bearer", "id_token": id_token}

    def jwks(self) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(signing_key().public_key(), as_dict=True)
        return {"keys": [key | {"kid": "1", "use": "sig", "alg": "RS256"}]}


class _ProviderHandler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.send_response(302)
            self.send_header("Location", self.provider.authorize(query))
            self.end_headers()
        elif parts.path == "/userinfo":
            known = self.headers["Authorization"] == "Bearer open sesame"
            self._json(self.provider.person if known else None, 401)
        elif parts.path == "/jwks":
            self._json(self.provider.jwks())
        elif parts.path == "/.well-known/openid-configuration":
            self._json(self.provider.configuration())
        else:
            self._json(None, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self._json(self.provider.token(form), 400)

    def _json(self, answer: dict[str, Any] | None, otherwise: int = 500) -> None:
        self.send_response(200 if answer is not None else otherwise)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer or {"error": "invalid_request"}).encode())

    def log_message(self, *args: Any) -> None:
        pass


@contextlib.contextmanager
def running_provider() -> Iterator[Provider]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ProviderHandler)
    provider = Provider(f"http://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = type("Handler", (_ProviderHandler,), {"provider": provider})
    with serving(server):
        yield provider
