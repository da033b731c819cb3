"""OpenID Connect identity providers from environment variables."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from webprofile.env import secret

_KEYS = {"id", "name", "issuer", "client_id", "client_secret"}


def oidc_apps() -> list[dict[str, Any]]:
    """Return the providers in the format of allauth's setting `APPS`.

    OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and OIDC_NAME name one; OIDC_PROVIDERS names
    several, as a JSON list of objects with id, name, issuer, client_id and client_secret. Either
    secret may be given as a file. Raises ImproperlyConfigured if something is missing.
    """
    providers = _from_json(secret("OIDC_PROVIDERS", ""))
    if issuer := secret("OIDC_ISSUER", ""):
        single = {
            "id": "oidc",
            "name": secret("OIDC_NAME", "OpenID Connect"),
            "issuer": issuer,
            "client_id": secret("OIDC_CLIENT_ID"),
            "client_secret": secret("OIDC_CLIENT_SECRET"),
        }
        providers.append(single)
    return [_app(provider) for provider in providers]


def origins(apps: list[dict[str, Any]]) -> list[str]:
    """Return the origins of the providers, which the login form may redirect to (CSP)."""
    parts = (urlsplit(app["settings"]["server_url"]) for app in apps)
    return sorted({f"{part.scheme}://{part.netloc}" for part in parts})


def _from_json(text: str) -> list[dict[str, str]]:
    try:
        providers = json.loads(text or "[]")
    except ValueError as error:
        raise ImproperlyConfigured("OIDC_PROVIDERS is no JSON.") from error
    if not isinstance(providers, list) or not all(isinstance(item, dict) for item in providers):
        raise ImproperlyConfigured("OIDC_PROVIDERS is no list of objects.")
    return providers


def _app(provider: dict[str, str]) -> dict[str, Any]:
    missing = sorted(key for key in _KEYS if not provider.get(key))
    if missing or provider.keys() - _KEYS:
        raise ImproperlyConfigured(f"An OIDC provider has exactly the keys {sorted(_KEYS)}.")
    if not re.fullmatch(r"[a-z0-9-]{1,30}", provider["id"]):
        raise ImproperlyConfigured("The id of an OIDC provider is of a-z, 0-9 and -.")
    if urlsplit(provider["issuer"]).scheme not in {"http", "https"}:
        raise ImproperlyConfigured("The issuer of an OIDC provider is an address: https://...")
    return {
        "provider_id": provider["id"],
        "name": provider["name"],
        "client_id": provider["client_id"],
        "secret": provider["client_secret"],
        "settings": {"server_url": provider["issuer"].rstrip("/")},
    }
