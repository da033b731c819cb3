"""What every page may ask for."""

from django.conf import settings
from django.http import HttpRequest


def site(request: HttpRequest) -> dict[str, bool]:
    """`is_traced`: whether a page says of which trace its requests are.
    `has_mail_server`: whether mail leaves the site, so that a page may promise any.
    `has_identity_provider`: whether one may log in elsewhere (OpenID Connect).
    """
    return {
        "has_mail_server": settings.HAS_MAIL_SERVER,
        "has_identity_provider": bool(settings.OIDC_APPS),
        "is_traced": settings.TRACING,
    }
