"""The pages about oneself, and what login pages ask for while somebody types."""

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
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from accounts.forms import PreferencesForm, TokenForm
from accounts.models import AccessToken, User, canonical_email
from accounts.selectors import current_user
from accounts.sessions import end_sessions
from accounts.tokens.access import issue_token, revoke_token
from webprofile.errors import DomainError
from webprofile.messages.errors import word

log = structlog.get_logger()
#: of what is checked while it is typed; the same limit as Django's password fields
PASSWORD_LIMIT = 4096


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def profile(request: HttpRequest) -> HttpResponse:
    """How the site looks to its reader."""
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
    return render(request, "accounts/profile.html", {"form": form}, status=_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
@sensitive_post_parameters()
def tokens(request: HttpRequest) -> HttpResponse:
    """A user's access tokens; a secret is only in the answer to the request that makes it."""
    user = current_user(request)
    form = TokenForm(request.POST if request.method == "POST" else None, user=user)
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            made, context["secret"] = issue_token(
                user, name=wanted["name"], scopes=wanted["scopes"], days=wanted["days"] or 0
            )
        except DomainError as error:
            form.add_error(error.field or None, word(error))
        else:
            context |= {"made": made, "form": TokenForm(user=user)}
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
    """End one session; one's own is a logout."""
    session = get_object_or_404(UserSession, pk=session_id, user=current_user(request))
    if session.session_key == request.session.session_key:
        return _logged_out(request, session)
    session.end()
    messages.success(request, _("The session is ended."))
    return redirect("usersessions_list")


@require_POST
@login_required
def session_end_all(request: HttpRequest) -> HttpResponse:
    """Log out everywhere, here too."""
    end_sessions(current_user(request))
    return _logged_out(request, None)


@require_POST
@sensitive_post_parameters("password")
def password_check(request: HttpRequest) -> JsonResponse:
    """{"problems": [text]}: what the server would say of this new password."""
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
    """allauth's page; without a mail server it says whom to ask, and takes nothing."""
    if not settings.HAS_MAIL_SERVER:
        return render(request, "account/password_reset.html", {})
    answer: HttpResponse = allauth_views.password_reset(request)
    return answer


def oidc_login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """allauth's way to an identity provider; one that does not answer is told on a page."""
    try:
        answer: HttpResponse = oidc_views.login(request, provider_id)
    except requests.RequestException:
        log.exception("identity_provider_away", provider=provider_id)
        return render(request, "socialaccount/authentication_error.html", {}, status=503)
    return answer


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """The switch in the header: for this browser, and for a user everywhere."""
    code = request.POST.get("language", "")
    if isinstance(request.user, User) and code in dict(settings.LANGUAGES):
        User.objects.filter(pk=request.user.pk).update(language=code)
    return set_language(request)


def _logged_out(request: HttpRequest, session: UserSession | None) -> HttpResponse:
    logout(request)
    if session is not None:
        session.delete()
    return redirect("account_login")


def _status(form: Any) -> int:
    return 422 if form.is_bound and form.errors else 200
