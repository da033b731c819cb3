"""Template context processor of the site."""

from django.conf import settings
from django.http import HttpRequest


def site(request: HttpRequest) -> dict[str, bool]:
    """Return the context variables of all pages.

    `is_traced`: whether pages send a `traceparent` header
    `has_mail_server`: whether the site sends mail, so that a page may announce a message
    `has_identity_provider`: whether users can log in with OpenID Connect
    """
    return {
        "has_mail_server": settings.HAS_MAIL_SERVER,
        "has_identity_provider": bool(settings.OIDC_APPS),
        "is_traced": settings.TRACING,
    }
