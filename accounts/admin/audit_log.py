"""Admin site: the audit log, read-only, with search and filters."""

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.models import AuditEntry
from webprofile.admin.audited import AuditedAdmin
from webprofile.admin.entries import (
    ACTIONS,
    TARGETS,
    action_name,
    differences,
    target_page,
)
from webprofile.integers import parse_key
from webprofile.templatetags.moments import moment


class _CodeFilter(admin.SimpleListFilter):
    names: Mapping[str, Any]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*self.names.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter((self.parameter_name, self.value())) if self.value() else queryset


class ActionFilter(_CodeFilter):
    title = _("action")
    parameter_name = "action"
    names = ACTIONS


class TargetFilter(_CodeFilter):
    title = _("kind")
    parameter_name = "target_type"
    names = TARGETS


@admin.register(AuditEntry)
class AuditEntryAdmin(AuditedAdmin):
    may_edit = False
    list_display = ("when", "who", "what", "target", "changes", "address")
    list_display_links = ("when",)
    list_filter = (ActionFilter, TargetFilter)
    list_per_page = 50
    #: counting all rows of a long log takes longer than loading one page
    show_full_result_count = False
    date_hierarchy = "at"
    ordering = ("-id",)
    search_fields = ("actor_email", "target_name", "action", "address")
    search_help_text = _("User, action, object or IP address")
    actions = None
    change_form_template = "admin/accounts/auditentry/change_form.html"

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Also allow lookups by `target_id`, as in links to the history of one row."""
        return lookup == "target_id" or super().lookup_allowed(lookup, value, request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        """Also search the translated names of actions, and the e-mails of users with grants."""
        term = search_term.strip()
        results, _duplicates = super().get_search_results(request, queryset, search_term)
        if not term:
            return results, False
        codes = [code for code in ACTIONS if term.casefold() in action_name(code).casefold()]
        more = Q(action__in=codes) | Q(after__has_key=term)
        return results | queryset.filter(more), False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Set the title of the history of one row, with the last name of that row."""
        target_type = request.GET.get("target_type")
        target_id = parse_key(request.GET.get("target_id", ""))
        context = extra_context or {}
        if target_id:
            entries = AuditEntry.objects.filter(target_type=target_type, target_id=target_id)
            if last := entries.first():
                context |= {"title": gettext("History of %(name)s") % {"name": last.target_name}}
        return super().changelist_view(request, context)

    def page_context(self, request: HttpRequest, row: AuditEntry) -> dict[str, Any]:
        return {
            "entry": row,
            "title": action_name(row.action),
            "subtitle": None,
            "differences": differences(row),
            "target_page": target_page(row),
            "target_kind": TARGETS.get(row.target_type, row.target_type),
        }

    @admin.display(description=_("date and time"), ordering="at")
    def when(self, entry: AuditEntry) -> str:
        return moment(entry.at, "seconds")

    @admin.display(description=_("user"), ordering="actor_email")
    def who(self, entry: AuditEntry) -> Any:
        return entry.actor_email or _("the site itself")

    @admin.display(description=_("action"), ordering="action")
    def what(self, entry: AuditEntry) -> str:
        return action_name(entry.action)

    @admin.display(description=_("object"), ordering="target_name")
    def target(self, entry: AuditEntry) -> str | SafeString:
        page = target_page(entry)
        if not page:
            return entry.target_name
        return format_html('<a href="{}">{}</a>', page, entry.target_name)

    @admin.display(description=_("before and after"))
    def changes(self, entry: AuditEntry) -> str:
        changes = differences(entry)
        text = "; ".join(map(str, changes[:3]))
        return text + ("; …" if len(changes) > 3 else "")
