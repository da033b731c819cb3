"""What every page may ask for."""

from django.conf import settings
from django.http import HttpRequest


def site(request: HttpRequest) -> dict[str, bool]:
    """`has_mail_server`: whether mail leaves the site, so that a page may promise any."""
    return {"has_mail_server": settings.HAS_MAIL_SERVER}
