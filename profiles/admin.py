"""Admin pages of imports: owner, state and size."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from accounts.selectors import current_user
from profiles.imports.uploads import delete_import
from profiles.models import OpenedFile, ProfileUpload
from profiles.presenters.formatting import bytesize
from webprofile.admin.audited import AuditedAdmin, is_administrator
from webprofile.templatetags.moments import moment


class OpenedFileInline(admin.TabularInline):
    """The uploaded files, read-only."""

    model = OpenedFile
    extra = 0
    fields = readonly_fields = ("number", "name", "size", "md5")
    can_delete = False

    @admin.display(description=_("size"))
    def size(self, file: OpenedFile) -> str:
        return bytesize(file.size_bytes)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_administrator(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(ProfileUpload)
class ProfileUploadAdmin(AuditedAdmin):
    may_delete = True
    list_display = ("name", "owner", "state", "size", "created", "page")
    list_filter = ("state",)
    search_fields = ("name", "owner__email")
    fields = ("name", "owner", "state", "size", "problem", "problem_detail", "created", "page")
    readonly_fields = fields
    inlines = (OpenedFileInline,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[ProfileUpload]:
        uploads = super().get_queryset(request).exclude(state=ProfileUpload.State.DELETED)
        return uploads.select_related("owner")

    def delete_model(self, request: HttpRequest, obj: ProfileUpload) -> None:
        """Mark the import as deleted; the row remains until the sweep has removed the files."""
        delete_import(obj, by=current_user(request))

    @admin.display(description=_("size"))
    def size(self, upload: ProfileUpload) -> str:
        return bytesize(upload.size_bytes)

    @admin.display(description=_("created"), ordering="created_at")
    def created(self, upload: ProfileUpload) -> str:
        return moment(upload.created_at, "seconds")

    @admin.display(description=_("page"))
    def page(self, upload: ProfileUpload) -> str:
        address = reverse("profiles:opened", args=[upload.pk])
        return format_html('<a href="{}">{}</a>', address, _("open"))
