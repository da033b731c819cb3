"""Base class of model admins that record every change in the audit log."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.audit import record_audit_entry
from accounts.models import User
from accounts.selectors import current_user


def is_administrator(request: HttpRequest) -> bool:
    """Return whether the user is an active administrator; administrators have all permissions."""
    user = request.user
    return isinstance(user, User) and user.is_active and user.is_staff


class AuditedAdmin(admin.ModelAdmin):
    """A model admin for administrators that records old and new values in the audit log.

    Rows cannot be deleted unless a subclass sets `may_delete`, since they are part of the history.
    """

    #: first part of the action code in the audit log, and the fields whose values are recorded
    audit_noun = ""
    audit_fields: tuple[str, ...] = ()
    may_delete = False
    #: whether the admin site has forms to add and to change rows
    may_edit = True
    #: the counts beside the filters cost one query each
    show_facets = admin.ShowFacets.NEVER

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_administrator(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_administrator(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may_edit and is_administrator(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_edit and is_administrator(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_delete and is_administrator(request)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        context = {**(extra_context or {}), **(self.page_context(request, row) if row else {})}
        return super().change_view(request, object_id, form_url, context)

    def page_of(self, row: Any) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return additional template context of a row's page, from the stored row."""
        return {}

    def audit_values(self, row: Any) -> dict[str, Any]:
        """Return the audited values of a row as they are in the database now."""
        stored = self.model._default_manager.filter(pk=row.pk).first()
        return {name: getattr(stored, name) for name in self.audit_fields} if stored else {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        # recorded in `save_related`, after the whole form is saved
        request.audit_before = self.audit_values(obj) if change else {}  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        before = request.audit_before  # type: ignore[attr-defined]
        after = self.audit_values(form.instance)
        if not change:
            changed = {name: value for name, value in after.items() if value not in ("", None)}
        else:
            changed = {name: after[name] for name in after if after[name] != before.get(name)}
        if changed or not change:
            record_audit_entry(
                f"{self.audit_noun}.{'change' if change else 'create'}",
                form.instance,
                by=current_user(request),
                before={name: before[name] for name in changed if name in before},
                after=changed,
            )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        values = self.audit_values(obj)
        record_audit_entry(
            f"{self.audit_noun}.delete", obj, by=current_user(request), before=values
        )
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Delete several rows that are selected in the list, with an audit entry for each."""
        rows = list(queryset)
        for row in rows:
            self.delete_model(request, row)
        text = ngettext(
            "%(count)s item has been deleted.", "%(count)s items have been deleted.", len(rows)
        )
        messages.success(request, text % {"count": len(rows)})

    def message_user(
        self, request: HttpRequest, message: Any, level: Any = messages.INFO, *args: Any, **kw: Any
    ) -> None:
        """Show messages except of success: `response_*` below show those in the site's wording."""
        if level != messages.SUCCESS:
            super().message_user(request, message, level, *args, **kw)

    def response_add(self, request: HttpRequest, obj: Any, *args: Any) -> HttpResponse:
        named = format_html('<a href="{}">{}</a>', self.page_of(obj), obj)
        messages.success(request, format_html(_("“{name}” has been added."), name=named))
        return super().response_add(request, obj, *args)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        messages.success(request, _("Saved."))
        return super().response_change(request, obj)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        messages.success(request, _("“%(name)s” has been deleted.") % {"name": obj_display})
        return super().response_delete(request, obj_display, obj_id)

    def log_addition(self, *args: Any) -> Any:
        """Do not write a LogEntry: the audit log records the change with more detail."""

    log_change = log_deletions = log_addition  # type: ignore[assignment]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        query = {"target_type": str(self.opts.model_name), "target_id": object_id}
        return redirect(f"{reverse('admin:accounts_auditentry_changelist')}?{urlencode(query)}")
