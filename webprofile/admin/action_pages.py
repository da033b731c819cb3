"""Admin pages with actions: for several rows of a list, or as buttons on the page of one row.

An action with a warning is confirmed on a page of its own first.
"""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from accounts.models import User
from accounts.selectors import current_user
from webprofile.admin.actions import AdminAction
from webprofile.admin.audited import AuditedAdmin


class ActionsAdmin(AuditedAdmin):
    """Offer the admin actions of a model as actions of the list and as buttons of a row's page."""

    def get_admin_actions(self) -> tuple[AdminAction, ...]:
        raise NotImplementedError

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {
            action.name: (_action_of(action), action.name, action.label)
            for action in self.get_admin_actions()
        }

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(require_POST(self.act_view))
        name = f"{self.opts.app_label}_{self.opts.model_name}_act"
        return [path("<int:pk>/act/<slug:name>/", view, name=name), *super().get_urls()]

    def act_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Perform one action on one row."""
        actions = self.get_admin_actions()
        action = next((action for action in actions if action.name == name), None)
        if action is None:
            raise Http404
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        response = self.perform(request, action, [row])
        return response or redirect(self.page_of(row))

    def buttons_of(self, row: Any) -> list[dict[str, Any]]:
        """Return the actions that apply to a row, with their URLs."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_act"
        return [
            {"action": action, "url": reverse(name, args=[row.pk, action.name])}
            for action in self.get_admin_actions()
            if action.fits(row)
        ]

    def page_below(
        self, request: HttpRequest, template: str, context: dict[str, Any]
    ) -> HttpResponse:
        """Render a page that is reached from the list and links back to it."""
        full_context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "back": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
            **context,
        }
        if request.method == "POST":  # the language switch cannot return to the answer of a POST
            full_context.setdefault("language_next", full_context["back"])
        return TemplateResponse(request, template, full_context)

    def perform(
        self, request: HttpRequest, action: AdminAction, rows: list[Any]
    ) -> HttpResponse | None:
        """Perform an action and report its results as messages.

        Returns the confirmation page if the action has a warning that is not confirmed yet, and a
        redirect if the current user is no longer an administrator afterwards.
        """
        if action.warning and request.POST.get("confirm") != "yes":
            return self._confirm(request, action, rows)
        if action.page is not None:
            return action.page(request, rows)
        self._apply(request, action, rows)
        user = current_user(request)
        is_admin = User.objects.filter(pk=user.pk, is_staff=True, is_active=True).exists()
        return None if is_admin else redirect("tasks:list")

    def _apply(self, request: HttpRequest, action: AdminAction, rows: list[Any]) -> None:
        results = action.on_rows(rows, by=current_user(request), **action.more(request))
        for result in results:
            if result.refusal is not None:
                messages.error(request, result.refusal_words)
        for add_message, changed in ((messages.success, True), (messages.info, False)):
            names = [
                result.name
                for result in results
                if result.refusal is None and result.changed is changed
            ]
            if names:
                add_message(request, action.words(names, changed=changed))

    def _confirm(self, request: HttpRequest, action: AdminAction, rows: list[Any]) -> HttpResponse:
        context = {
            "title": action.label,
            "action": action,
            "rows": rows,
            "of_oneself": action.of_oneself if current_user(request) in rows else "",
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return self.page_below(request, "admin/confirm_action.html", context)


def _action_of(
    action: AdminAction,
) -> Callable[[ActionsAdmin, HttpRequest, QuerySet], HttpResponse | None]:
    def perform_on_queryset(
        self: ActionsAdmin, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        rows = list(queryset)
        if names := request.POST.get("confirmed"):
            # rows that have entered the list since the page that named its rows are left alone
            confirmed = set(names.split(","))
            rows = [row for row in rows if str(row.pk) in confirmed]
        return self.perform(request, action, rows)

    return perform_on_queryset
