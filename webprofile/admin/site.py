"""Which rows the administration shows: this site's own.

What libraries register (e-mail addresses, factors, sessions, tokens) would be changed past the
audit log and past the services that keep rows together.
"""

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

_OWN = {"accounts", "workers", "tasks", "profiles"}


def _password_change(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """One's own password is changed where everybody does it."""
    return redirect("account_change_password")


for model in apps.get_models():
    if model._meta.app_label not in _OWN and admin.site.is_registered(model):
        admin.site.unregister(model)
admin.site.password_change = _password_change  # type: ignore[assignment,method-assign]
admin.site.index_title = _("Administration")
admin.site.enable_nav_sidebar = False
