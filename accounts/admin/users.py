"""Admin site: users, their private devices, passwords and sessions."""

from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.forms import BaseUserCreationForm, SetPasswordForm
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils.decorators import method_decorator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from accounts import services
from accounts.audit import entries_about
from accounts.models import User
from accounts.selectors import current_user, has_second_factor, human_users, with_sessions
from accounts.sessions import end_session, sessions_of
from accounts.tokens.access import usable_tokens
from webprofile.admin.action_pages import ActionsAdmin
from webprofile.admin.actions import AdminAction, grant_words
from webprofile.admin.user_actions import USER_ACTIONS
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.templatetags.moments import moment
from workers.grants import add_grants, remove_grants
from workers.models import Worker


class AddUserForm(BaseUserCreationForm):
    """The form that creates a user; `UserAdmin.save_model` saves it with `create_account`."""

    administrator = forms.BooleanField(
        label=_("Administrator"), required=False, help_text=_("Has all permissions.")
    )

    class Meta:
        model = User
        fields = ("email",)


class GrantForm(forms.Form):
    """The private devices that several users get or lose."""

    workers = forms.ModelMultipleChoiceField(
        label=_("Private devices"),
        queryset=Worker.objects.filter(is_public=False, retired_at=None).order_by("name"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one device.")},
    )

    def __init__(self, *args: Any, held_by: list[User] | None = None, **kwargs: Any) -> None:
        """held_by: offer only devices that at least one of these users has; None for all."""
        super().__init__(*args, **kwargs)
        if held_by is not None:
            field = cast("forms.ModelMultipleChoiceField[Worker]", self.fields["workers"])
            assert field.queryset is not None
            field.queryset = field.queryset.filter(grants__user__in=held_by).distinct()


class UserAdmin(ActionsAdmin):
    list_display = ("email", "number", "role", "active", "devices", "seen", "sessions")
    list_filter = (
        ("is_staff", admin.BooleanFieldListFilter),
        ("is_active", admin.BooleanFieldListFilter),
    )
    list_per_page = 50
    search_fields = ("email", "granted_workers__name")
    search_help_text = _("An e-mail address, or the name of a private device")
    ordering = ("email",)
    fields = ("email", "task_limit", "storage_limit_gib")
    readonly_fields = ("email",)
    change_form_template = "admin/accounts/user/change_form.html"

    def get_admin_actions(self) -> tuple[AdminAction, ...]:
        return (
            AdminAction(
                "grant_workers",
                _("Grant access to private devices"),
                page=partial(self._grants, adds=True),
            ),
            AdminAction(
                "ungrant_workers",
                _("Revoke access to private devices"),
                page=partial(self._grants, adds=False),
            ),
            *USER_ACTIONS,
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Add sessions and granted devices, with a constant number of queries."""
        rows: QuerySet[User] = super().get_queryset(request)
        return with_sessions(rows & human_users()).prefetch_related("granted_workers")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("<int:pk>/password/", view(self.password_view), name="accounts_user_password_set"),
            path(
                "<int:pk>/sessions/<int:session_id>/end/",
                view(require_POST(self.session_end_view)),
                name="accounts_user_session_end",
            ),
            *super().get_urls(),
        ]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # the inherited method would require model fields named like the password fields
        return super().get_form(request, obj, change, **kwargs) if obj else AddUserForm

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj:
            return super().get_fieldsets(request, obj)
        return [(None, {"fields": ("email", "password1", "password2", "administrator")})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.readonly_fields if obj else ()

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if change:
            limits = {name: form.cleaned_data[name] for name in ("task_limit", "storage_limit_gib")}
            services.limit_user(obj, **limits, by=current_user(request))
            return
        user = services.create_account(
            email=obj.email,
            password=form.cleaned_data["password1"],
            administrator=form.cleaned_data["administrator"],
            by=current_user(request),
        )
        obj.pk = user.pk
        obj.refresh_from_db()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the services that `save_model` calls have saved and audited everything."""

    def page_context(self, request: HttpRequest, row: User) -> dict[str, Any]:
        return {
            "subject": row,
            "title": row.email,
            "subtitle": None,
            "show_save_and_add_another": False,
            "buttons": self.buttons_of(row),
            "role": self.role(row),
            "sessions": sessions_of(row),
            "tokens": usable_tokens(row),
            "task_count": row.tasks.count(),
            "has_second_factor": has_second_factor(row),
            "entries": entries_about(row),
            "own_session": request.session.session_key,
        }

    @method_decorator(sensitive_post_parameters())
    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def password_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Set a user's password; administrators change their own on the page of all users."""
        user = get_object_or_404(human_users(), pk=pk)
        if user == request.user:
            return redirect("account_change_password")
        form = SetPasswordForm(user, request.POST if request.method == "POST" else None)
        if form.is_valid():
            password = form.cleaned_data["new_password1"]
            services.set_user_password(user, password=password, by=current_user(request))
            text = gettext(
                "The password of %(user)s has been changed, and all sessions have been ended."
            )
            messages.success(request, text % {"user": user.email})
            return redirect(self.page_of(user))
        context = {"title": _("Set a password"), "form": form, "subject": user}
        return self.page_below(request, "admin/accounts/user/password.html", context)

    def session_end_view(self, request: HttpRequest, pk: int, session_id: int) -> HttpResponse:
        user = get_object_or_404(User, pk=pk)
        try:
            end_session(user, session_id=session_id, by=current_user(request))
            messages.success(request, gettext("The session has been ended."))
        except DomainError as error:
            messages.info(request, word(error))
        return redirect(self.page_of(user))

    def _grants(
        self, request: HttpRequest, users: list[User], *, adds: bool
    ) -> HttpResponse | None:
        """Show the form of private devices; when it is submitted, grant them or revoke the grants.

        Returns None after the change, so that the list of users is shown again.
        """
        data = request.POST if "chosen" in request.POST else None
        form = GrantForm(data, held_by=None if adds else users)
        if form.is_valid():
            change = add_grants if adds else remove_grants
            workers = [worker.pk for worker in form.cleaned_data["workers"]]
            ids = [user.pk for user in users]
            try:
                count = change(users=ids, workers=workers, by=current_user(request))
            except DomainError as error:
                form.add_error(None, word(error))
            else:
                add_message = messages.success if count else messages.info
                add_message(request, grant_words(count, adds=adds))
                return None
        title = (
            _("Grant access to private devices") if adds else _("Revoke access to private devices")
        )
        context = {
            "title": title,
            "form": form,
            "rows": users,
            "action": "grant_workers" if adds else "ungrant_workers",
            "adds": adds,
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return self.page_below(request, "admin/accounts/user/grants.html", context)

    @admin.display(description="ID", ordering="pk")
    def number(self, user: User) -> int:
        return user.pk

    @admin.display(description=_("role"), ordering="is_staff")
    def role(self, user: User) -> Any:
        return _("administrator") if user.is_staff else _("user")

    @admin.display(description=_("active"), ordering="is_active", boolean=True)
    def active(self, user: User) -> bool:
        return user.is_active

    @admin.display(description=_("private devices"))
    def devices(self, user: User) -> str:
        names = sorted(worker.name for worker in user.granted_workers.all() if not worker.is_public)
        return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")

    @admin.display(description=_("last seen"), ordering="seen_at")
    def seen(self, user: User) -> str:
        return moment(getattr(user, "seen_at", None), "seconds") or "–"

    @admin.display(description=_("sessions"), ordering="session_count")
    def sessions(self, user: User) -> int:
        return getattr(user, "session_count", 0)


admin.site.register(User, UserAdmin)
