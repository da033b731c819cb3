"""Set up the admin site with the models of this project only.

Changes to models that libraries register (e-mail addresses, second factors, sessions, tokens) would
bypass the audit log and the services that keep rows consistent.
"""

from allauth.account.decorators import secure_admin_login
from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

_OWN = {"accounts", "workers", "tasks", "profiles"}


def _password_change(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """Redirect to the password page of the account, which all users share."""
    return redirect("account_change_password")


def set_up_admin_site() -> None:
    """Import the admin module of each app, then unregister the models of libraries.

    Administrators log in on the login page of the site, which has rate limits.
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
