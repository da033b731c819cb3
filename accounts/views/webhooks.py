"""Pages of a user's webhooks."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext_lazy as _
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
def webhooks(request: HttpRequest) -> HttpResponse:
    """List and add webhooks; only the response that adds one contains its secret."""
    user = current_user(request)
    form = WebhookForm(request.POST if request.method == "POST" else None, user=user)
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        try:
            webhook, context["secret"] = add_webhook(user, **form.cleaned_data)
        except DomainError as error:
            form.add_error(error.field or None, word(error))
        else:
            context |= {"made": webhook, "form": WebhookForm(user=user)}
    context["webhooks"] = user.webhooks.all()
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "accounts/webhooks.html", context, status=status)


@require_http_methods(["GET", "HEAD"])
@login_required
def webhook(request: HttpRequest, webhook_id: int) -> HttpResponse:
    return _render_webhook(request, _own(request, webhook_id))


@require_POST
@login_required
def webhook_action(request: HttpRequest, webhook_id: int, action: str) -> HttpResponse:
    """Test, enable or remove a webhook, or change its secret.

    action: "rotate" or a key of `_ACTIONS`
    """
    webhook = _own(request, webhook_id)
    if action == "rotate":
        secret = rotate_webhook_secret(webhook)
        webhook.refresh_from_db()
        return _render_webhook(request, webhook, secret=secret)
    if action not in _ACTIONS:
        raise Http404
    service, text = _ACTIONS[action]
    try:
        service(webhook)
    except DomainError as error:
        messages.error(request, word(error))
    else:
        messages.success(request, text)
    if action == "remove":
        return redirect("accounts:webhooks")
    return redirect("accounts:webhook", webhook_id)


def _own(request: HttpRequest, webhook_id: int) -> Webhook:
    return get_object_or_404(Webhook, pk=webhook_id, user=current_user(request))


def _render_webhook(request: HttpRequest, webhook: Webhook, **context: Any) -> HttpResponse:
    rows = [
        (row, word(DomainError(f"webhook_{row.problem}")) if row.problem else "")
        for row in webhook.deliveries.all()[:DELIVERIES_SHOWN]
    ]
    context |= {"webhook": webhook, "deliveries": rows}
    return render(request, "accounts/webhook.html", context)


#: the service of each button, and the message after it
_ACTIONS: dict[str, tuple[Callable[[Webhook], object], Any]] = {
    "test": (
        send_test_delivery,
        _("The test is being sent. The list below shows its result."),
    ),
    "end-former": (end_former_secret, _("Calls are now signed with the new secret only.")),
    "enable": (
        enable_webhook,
        _("The webhook is enabled and receives events from now on."),
    ),
    "remove": (remove_webhook, _("The webhook has been removed.")),
}
