"""Admin pages of imports and of share links."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.selectors import current_user
from profiles.imports.uploads import delete_import
from profiles.models import OpenedFile, ProfileUpload, Share
from profiles.presenters.formatting import bytesize, listed
from profiles.sharing import revoke_share
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
    may_edit = False
    list_display = ("name", "owner", "state", "size", "created", "page")
    list_filter = ("state",)
    search_fields = ("name", "owner__email")
    fields = ("name", "owner", "state", "size", "problem", "problem_detail", "created", "page")
    readonly_fields = fields
    inlines = (OpenedFileInline,)

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


@admin.register(Share)
class ShareAdmin(AuditedAdmin):
    """All links, which administrators can revoke."""

    may_edit = False
    list_display = (
        "name", "kind", "creator", "shows", "prefix", "views", "created", "ends", "ended",
    )  # fmt: skip
    list_filter = ("kind",)
    search_fields = ("name", "prefix", "creator__email")
    fields = readonly_fields = list_display
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Share]:
        return super().get_queryset(request).select_related("creator")

    @admin.action(description=_("Revoke"))
    def revoke(self, request: HttpRequest, shares: QuerySet[Share]) -> None:
        """Revoke the selected links."""
        count = sum(revoke_share(share, by=current_user(request)) for share in shares)
        text = ngettext("%(count)s link is revoked.", "%(count)s links are revoked.", count)
        messages.success(request, text % {"count": count})

    @admin.display(description=_("also shows"))
    def shows(self, share: Share) -> str:
        return listed(share.part_names)

    @admin.display(description=_("created"), ordering="created_at")
    def created(self, share: Share) -> str:
        return moment(share.created_at, "seconds")

    @admin.display(description=_("ends"), ordering="expires_at")
    def ends(self, share: Share) -> str:
        return moment(share.revoked_at or share.ends_at, "seconds")

    @admin.display(description=_("ended"), boolean=True)
    def ended(self, share: Share) -> bool:
        return share.has_ended
