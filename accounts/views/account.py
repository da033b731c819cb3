"""Pages of a user's own account: preferences, access tokens, sessions; customized login pages."""

from typing import Any

import requests
import structlog
from allauth.account import views as allauth_views
from allauth.core import ratelimit
from allauth.socialaccount.providers.openid_connect import views as oidc_views
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from accounts.forms import PreferencesForm, TokenForm
from accounts.models import AccessToken, User, canonical_email
from accounts.selectors import current_user
from accounts.sessions import end_user_sessions
from accounts.tokens.access import issue_token, revoke_token
from tasks.submission.validation import storage_quota_of
from webprofile.errors import DomainError
from webprofile.messages.errors import word

log = structlog.get_logger()
#: maximum length of a password in `password_check`, the same as of Django's password fields
PASSWORD_LIMIT = 4096


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def profile(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    form = PreferencesForm(request.POST or None, instance=user)
    if request.method == "POST":
        if form.is_valid():
            form.save(commit=False)
            user.save(update_fields=form.Meta.fields)
            with translation.override(user.language or translation.get_language()):
                messages.success(request, _("Saved."))
            return redirect("accounts:profile")
        user.refresh_from_db()
    context = {"form": form, "storage": storage_quota_of(user)}
    return render(request, "accounts/profile.html", context, status=_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@sensitive_post_parameters()
def tokens(request: HttpRequest) -> HttpResponse:
    """List and create access tokens; only the response that creates one contains its secret."""
    user = current_user(request)
    form = TokenForm(request.POST if request.method == "POST" else None, user=user)
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            token, context["secret"] = issue_token(
                user, name=data["name"], scopes=data["scopes"], days=data["days"] or 0
            )
        except DomainError as error:
            form.add_error(error.field or None, word(error))
        else:
            context |= {"made": token, "form": TokenForm(user=user)}
    context["tokens"] = user.access_tokens.filter(revoked_at=None)
    return render(request, "accounts/tokens.html", context, status=_status(form))


@require_POST
@login_required
def token_end(request: HttpRequest, token_id: int) -> HttpResponse:
    token = get_object_or_404(AccessToken, pk=token_id, user=current_user(request))
    if revoke_token(token, by=token.user):
        messages.success(request, _("“%(name)s” is revoked.") % {"name": token.name})
    return redirect("accounts:tokens")


@require_POST
@login_required
def session_end(request: HttpRequest, session_id: int) -> HttpResponse:
    """End a session of the user; ending the current one logs out."""
    session = get_object_or_404(UserSession, pk=session_id, user=current_user(request))
    if session.session_key == request.session.session_key:
        return _log_out(request, session)
    session.end()
    messages.success(request, _("The session has been ended."))
    return redirect("usersessions_list")


@require_POST
@login_required
def session_end_all(request: HttpRequest) -> HttpResponse:
    """End all sessions and access tokens of the user, including the current session."""
    user = current_user(request)
    end_user_sessions(user, by=user)
    return _log_out(request, None)


@require_POST
@sensitive_post_parameters("password")
def password_check(request: HttpRequest) -> JsonResponse:
    """Return the validation errors of a new password as {"problems": [text]}."""
    if not ratelimit.consume(request, action="password_check"):
        return JsonResponse({"error": "too_many"}, status=429)
    password = request.POST.get("password", "")[:PASSWORD_LIMIT]
    user = request.user
    if not isinstance(user, User):
        user = User(email=canonical_email(request.POST.get("email", "")))
    try:
        validate_password(password, user)
    except ValidationError as error:
        return JsonResponse({"problems": error.messages})
    return JsonResponse({"problems": []})


@require_http_methods(["GET", "HEAD", "POST"])
def password_reset(request: HttpRequest) -> HttpResponse:
    """Show django-allauth's password reset; without a mail server, a page without a form."""
    if not settings.HAS_MAIL_SERVER:
        return render(request, "account/password_reset.html", {})
    response: HttpResponse = allauth_views.password_reset(request)
    return response


def oidc_login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Redirect to an identity provider; show an error page if the provider does not respond."""
    try:
        response: HttpResponse = oidc_views.login(request, provider_id)
    except requests.RequestException:
        log.exception("identity_provider_away", provider=provider_id)
        return render(request, "socialaccount/authentication_error.html", {}, status=503)
    return response


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Set the language of this browser, and of the user if somebody is logged in."""
    code = request.POST.get("language", "")
    if isinstance(request.user, User) and code in dict(settings.LANGUAGES):
        User.objects.filter(pk=request.user.pk).update(language=code)
    return set_language(request)


def _log_out(request: HttpRequest, session: UserSession | None) -> HttpResponse:
    logout(request)
    if session is not None:
        session.delete()
    return redirect("account_login")


def _status(form: Any) -> int:
    return 422 if form.is_bound and form.errors else 200
