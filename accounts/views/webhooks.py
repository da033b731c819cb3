"""The pages of a user's webhooks."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.forms import WebhookForm
from accounts.models import Webhook
from accounts.selectors import current_user
from accounts.webhooks.registration import (
    add_webhook,
    enable_webhook,
    end_former_secret,
    remove_webhook,
    rotate_webhook_secret,
    send_test_delivery,
)
from webprofile.errors import DomainError
from webprofile.messages.errors import word

DELIVERIES_SHOWN = 30


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def webhooks(request: HttpRequest) -> HttpResponse:
    """A user's webhooks; a secret is only in the answer to the request that makes it."""
    user = current_user(request)
    form = WebhookForm(request.POST if request.method == "POST" else None, user=user)
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        try:
            made, context["secret"] = add_webhook(user, **form.cleaned_data)
        except DomainError as error:
            form.add_error(error.field or None, word(error))
        else:
            context |= {"made": made, "form": WebhookForm(user=user)}
    context["webhooks"] = user.webhooks.all()
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "accounts/webhooks.html", context, status=status)


@require_http_methods(["GET", "HEAD"])
@login_required
@never_cache
def webhook(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """One webhook, and what became of the last calls."""
    return _shown(request, _own(request, webhook_id))


@require_POST
@login_required
@never_cache
def webhook_act(request: HttpRequest, webhook_id: int, act: str) -> HttpResponse:
    """Test it, change its secret, enable or remove it."""
    found = _own(request, webhook_id)
    if act == "rotate":
        secret = rotate_webhook_secret(found)
        found.refresh_from_db()
        return _shown(request, found, secret=secret)
    if act not in _ACTS:
        raise Http404
    do, text = _ACTS[act]
    try:
        do(found)
    except DomainError as error:
        messages.error(request, word(error))
    else:
        messages.success(request, text)
    return redirect(*(["accounts:webhooks"] if act == "remove" else ["accounts:webhook", found.pk]))


def _own(request: HttpRequest, webhook_id: int) -> Webhook:
    return get_object_or_404(Webhook, pk=webhook_id, user=current_user(request))


def _shown(request: HttpRequest, found: Webhook, **more: Any) -> HttpResponse:
    rows = [
        (row, word(DomainError(f"webhook_{row.problem}")) if row.problem else "")
        for row in found.deliveries.all()[:DELIVERIES_SHOWN]
    ]
    context = {"webhook": found, "deliveries": rows, **more}
    return render(request, "accounts/webhook.html", context)


#: what each button does, and what is said then
_ACTS: dict[str, tuple[Callable[[Webhook], object], Any]] = {
    "test": (
        send_test_delivery,
        _("The test is on its way; what becomes of it stands in the list below."),
    ),
    "end-former": (end_former_secret, _("The new secret alone signs now.")),
    "enable": (
        enable_webhook,
        _("The webhook is enabled: it is told of what happens from now on."),
    ),
    "remove": (remove_webhook, _("The webhook is removed.")),
}
