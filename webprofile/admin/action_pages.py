"""What administrators do with rows, in pages: from a list with several, from a row with one.

What hurts is confirmed on a page of its own first.
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
from accounts.selectors import reader_of
from webprofile.admin.actions import Act
from webprofile.admin.audited import AuditedAdmin


class ActsAdmin(AuditedAdmin):
    """Offers its acts as actions of the list and as buttons of a row's page."""

    def get_acts(self) -> tuple[Act, ...]:
        raise NotImplementedError

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {act.name: (_action_of(act), act.name, act.label) for act in self.get_acts()}

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(require_POST(self.act_view))
        name = f"{self.opts.app_label}_{self.opts.model_name}_act"
        return [path("<int:pk>/act/<slug:name>/", view, name=name), *super().get_urls()]

    def act_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Do one act with one row."""
        act = next((act for act in self.get_acts() if act.name == name), None)
        if act is None:
            raise Http404
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        answer = self.perform(request, act, [row])
        return answer or redirect(self.page_of(row))

    def page_of(self, row: Any) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])

    def buttons_of(self, row: Any) -> list[dict[str, Any]]:
        """The acts that fit a row, with their addresses."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_act"
        return [
            {"act": act, "url": reverse(name, args=[row.pk, act.name])}
            for act in self.get_acts()
            if act.fits(row)
        ]

    def page_below(
        self, request: HttpRequest, template: str, context: dict[str, Any]
    ) -> HttpResponse:
        """A page that is reached from the list, and leads back to it."""
        whole = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "back": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
            **context,
        }
        if request.method == "POST":  # the language switch cannot come back to such a page
            whole.setdefault("language_next", whole["back"])
        return TemplateResponse(request, template, whole)

    def perform(self, request: HttpRequest, act: Act, rows: list[Any]) -> HttpResponse | None:
        """Ask first where the act wants it; then do it and say what came of it."""
        if act.warning and request.POST.get("confirm") != "yes":
            return self._confirm(request, act, rows)
        if act.page is not None:
            return act.page(request, rows)
        self._apply(request, act, rows)
        by = reader_of(request)
        stays = User.objects.filter(pk=by.pk, is_staff=True, is_active=True).exists()
        return None if stays else redirect("tasks:list")

    def _apply(self, request: HttpRequest, act: Act, rows: list[Any]) -> None:
        came = act.on_each(rows, by=reader_of(request), **act.more(request))
        for each in came:
            if each.refusal is not None:
                messages.error(request, each.refusal_words)
        for tell, changed in ((messages.success, True), (messages.info, False)):
            names = [each.name for each in came if each.refusal is None and each.changed is changed]
            if names:
                tell(request, act.words(names, changed=changed))

    def _confirm(self, request: HttpRequest, act: Act, rows: list[Any]) -> HttpResponse:
        context = {
            "title": act.label,
            "act": act,
            "rows": rows,
            "of_oneself": act.of_oneself if reader_of(request) in rows else "",
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return self.page_below(request, "admin/confirm_act.html", context)


def _action_of(act: Act) -> Callable[[ActsAdmin, HttpRequest, QuerySet], HttpResponse | None]:
    def action(
        self: ActsAdmin, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        return self.perform(request, act, list(queryset))

    return action
