"""Set up the admin site: it shows this site's own models.

What libraries register (e-mail addresses, factors, sessions, tokens) would be changed past the
audit log and past the services that keep rows together.
"""

from allauth.account.decorators import secure_admin_login
from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

_OWN = {"accounts", "workers", "tasks", "profiles"}


def _password_change(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """One's own password is changed where everybody does it."""
    return redirect("account_change_password")


def set_up_admin_site() -> None:
    """Import each app's admin module, then leave only this site's own models registered.

    Whoever logs in to the administration does so on the site's log-in page, with its rate limits.
    """
    admin.autodiscover()
    for model in apps.get_models():
        if model._meta.app_label not in _OWN and admin.site.is_registered(model):
            admin.site.unregister(model)
    admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
    admin.site.password_change = _password_change  # type: ignore[assignment,method-assign]
    admin.site.site_header = admin.site.site_title = _("MegEngine Web Profile")
    admin.site.index_title = _("Administration")
    admin.site.enable_nav_sidebar = False
