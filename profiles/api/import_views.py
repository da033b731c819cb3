"""API views of imports: create, upload, submit, rename and delete."""

import base64
import binascii
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from agent.protocol.multipart import MIB, PART_BYTES
from profiles.api.base import ResultView
from profiles.api.filters import OpenedFilters
from profiles.api.parts import JoinBody, PartsBody, address_parts, join_parts
from profiles.api.serializers import CreatedOpened, OpenedAnswer
from profiles.formats.detection import HEAD_BYTES
from profiles.imports import uploads
from profiles.imports.local_files import import_attempt, submit_import, upload_targets
from profiles.imports.uploads import FILES_LIMIT, FileToOpen
from profiles.models import OpenedFile, ProfileUpload
from profiles.selectors import visible_imports
from webprofile import fields
from webprofile.api.schema import REDIRECT, problems
from webprofile.api.uploads import JoinedAnswer, PartAddressesAnswer, UploadsAnswer
from webprofile.api.views import ApiListView
from webprofile.storage import storage

REFUSALS = ["invalid", "opened_*", "file_*", "checksum_bad", "parts_not_here"]


class Base64(fields.OptionalText):
    """Bytes in base64."""

    default_error_messages = {"base64": "no base64"}

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.fail("base64")


class FileToOpenBody(fields.Body):
    """A file that is to be uploaded."""

    name = fields.Text(
        max_length=1000, trim_whitespace=False, help_text="Its name, without a path."
    )
    size_bytes = fields.Integer(help_text="Exact size in bytes.")
    md5 = fields.OptionalText(
        max_length=100,
        help_text="Its MD5, 32 lower-case hexadecimal digits. Leave it out to send a file of more "
        f"than {PART_BYTES // MIB} MiB in parts.",
    )
    head = Base64(
        max_length=2 * HEAD_BYTES,
        help_text=f"Its first bytes in base64, at most {HEAD_BYTES}: a file of another kind is "
        "then refused before it is sent.",
    )


class OpenBody(fields.Body):
    """A profile to import."""

    name = fields.OptionalText(
        max_length=1000, help_text="Name of the import; by default that of the first file."
    )
    files = FileToOpenBody(  # type: ignore[call-arg]
        many=True,
        max_length=FILES_LIMIT,
        help_text=f"At most {FILES_LIMIT}, in the order of their passes.",
    )


class RenameBody(fields.Body):
    """A new name."""

    name = fields.Text(max_length=1000, help_text="Name of the import.")


@extend_schema_view(
    get=extend_schema(summary="List imported profiles", operation_id="profiles_opened_list")
)
class OpenedList(ApiListView):
    """The user's imports; administrators see all."""

    queryset = ProfileUpload.objects.all()
    serializer_class = OpenedAnswer
    filterset_class = OpenedFilters

    def get_queryset(self) -> QuerySet[ProfileUpload]:
        return visible_imports(self.request.user)

    @extend_schema(
        summary="Import a profile",
        request=OpenBody,
        responses={201: CreatedOpened} | problems({422: REFUSALS}),
        operation_id="profiles_opened_create",
    )
    def post(self, request: Request) -> Response:
        """Announce files; the response has an upload URL for each. Upload each by `PUT`, then
        submit.

        Several files must belong to one run: profiled passes of one model, its trace, its memory.
        """
        body = OpenBody.read(request.data)
        files = [FileToOpen(**file | {"head": file["head"] or b""}) for file in body["files"]]
        upload = uploads.create_import(owner=self.request.user, files=files, name=body["name"])
        answer = OpenedAnswer(upload).data | {"uploads": upload_targets(upload)}
        headers = {"Location": reverse("api:opened", args=[upload.pk])}
        return Response(answer, status=201, headers=headers)


class OpenedView(ViewSetMixin, ResultView):
    """One imported profile."""

    @extend_schema(
        summary="Show an imported profile",
        responses=OpenedAnswer,
        operation_id="profiles_opened_show",
    )
    def retrieve(self, request: Request, upload_id: int) -> Response:
        """The state of an imported profile, and its result once it is ready."""
        return Response(OpenedAnswer(self.upload(upload_id)).data)

    @extend_schema(
        summary="Rename an imported profile",
        request=RenameBody,
        responses={200: OpenedAnswer} | problems({422: ["invalid", "opened_name"]}),
        operation_id="profiles_opened_rename",
    )
    def partial_update(self, request: Request, upload_id: int) -> Response:
        """Rename an imported profile."""
        upload = self.upload(upload_id)
        uploads.rename_import(upload, RenameBody.read(request.data)["name"])
        return Response(OpenedAnswer(upload).data)

    @extend_schema(
        summary="Delete an imported profile",
        responses={204: None},
        operation_id="profiles_opened_delete",
    )
    def destroy(self, request: Request, upload_id: int) -> Response:
        """The profile is deleted immediately; its files are removed from storage soon after."""
        uploads.delete_import(self.upload(upload_id), by=self.request.user)
        return Response(status=204)

    @extend_schema(
        summary="Renew the upload URLs of an imported profile",
        request=None,
        responses={200: UploadsAnswer} | problems({409: ["opened_gone"]}),
        operation_id="profiles_opened_uploads",
    )
    def uploads(self, request: Request, upload_id: int) -> Response:
        """Return new URLs for an upload that failed or whose URL expired; for files in parts, the
        response tells which parts have arrived.
        """
        upload = self.upload(upload_id)
        uploads.initiated_check(upload)
        return Response({"uploads": upload_targets(upload)})

    @extend_schema(
        summary="Submit an imported profile",
        request=None,
        responses={200: OpenedAnswer}
        | problems(
            {409: ["upload_missing", "upload_damaged", "opened_gone"], 422: ["opened_twice"]}
        ),
        operation_id="profiles_opened_submit",
    )
    def submit(self, request: Request, upload_id: int) -> Response:
        """Check that all files have arrived undamaged, and start reading them.

        Idempotent.
        """
        upload = self.upload(upload_id)
        submit_import(upload)
        return Response(OpenedAnswer(self.upload(upload_id)).data)

    @extend_schema(
        summary="Read an imported profile again",
        request=None,
        responses=OpenedAnswer,
        operation_id="profiles_opened_retry",
    )
    def retry(self, request: Request, upload_id: int) -> Response:
        """Read the files again after a failure that they did not cause (`may_retry`); otherwise
        nothing changes.
        """
        uploads.retry_import(self.upload(upload_id))
        return Response(OpenedAnswer(self.upload(upload_id)).data)

    @extend_schema(
        summary="Open what an attempt recorded",
        request=None,
        responses={200: OpenedAnswer, 201: OpenedAnswer}
        | problems(
            {
                404: ["not_found", "object_missing"],
                409: [
                    "attempt_has_result",
                    "attempt_recorded_nothing",
                    "upload_missing",
                    "upload_damaged",
                ],
                410: ["removed_by_rule"],
                422: REFUSALS,
            }
        ),
        operation_id="tasks_attempt_open",
    )
    def of_attempt(self, request: Request, task_id: int, number: int) -> Response:
        """Import the files of an attempt that failed, was cancelled or timed out as a profile: its
        passes, trace and memory, together as one run. It belongs to the caller.

        The files are copied within storage and read as if they had been uploaded. 200: the same
        files were opened before, and the response is that profile.
        """
        attempt = self.task(task_id).attempts.filter(number=number).first()
        if attempt is None:
            raise Http404
        imported = import_attempt(attempt, owner=self.request.user)
        upload = self.upload(imported.upload.pk)
        headers = {"Location": reverse("api:opened", args=[upload.pk])}
        status = 201 if imported.is_new else 200
        return Response(OpenedAnswer(upload).data, status=status, headers=headers)

    @extend_schema(
        summary="Download a file of an imported profile",
        responses=REDIRECT,
        operation_id="profiles_opened_file",
    )
    def file(self, request: Request, upload_id: int, number: int) -> HttpResponse:
        """A redirect to storage. Do not send the token to storage."""
        upload = self.upload(upload_id)
        file = upload.files.filter(number=number).first()
        if file is None or upload.state == ProfileUpload.State.INITIATED:
            raise Http404
        return redirect(storage.presign_get(file.object_key, filename=file.name))

    @extend_schema(
        summary="Request URLs for parts of an imported profile",
        request=PartsBody,
        responses={200: PartAddressesAnswer}
        | problems(
            {
                409: ["opened_gone", "parts_restarted", "parts_unwanted"],
                422: ["invalid", "parts_bad", "checksum_bad"],
            }
        ),
        operation_id="profiles_opened_file_parts",
    )
    def parts(self, request: Request, upload_id: int, number: int) -> Response:
        """The same as for the files of a task."""
        return address_parts(self.initiated_file(upload_id, number), request.data)

    @extend_schema(
        summary="Join the parts of an imported profile's file",
        request=JoinBody,
        responses={200: JoinedAnswer}
        | problems(
            {
                409: ["opened_gone", "parts_unwanted", "upload_missing", "upload_damaged"],
                422: ["invalid", "checksum_bad"],
            }
        ),
        operation_id="profiles_opened_file_join",
    )
    def join(self, request: Request, upload_id: int, number: int) -> Response:
        """The same as for the files of a task."""
        return join_parts(self.initiated_file(upload_id, number), request.data)

    def upload(self, upload_id: int) -> ProfileUpload:
        """Return the import with this number, if it belongs to the user. Raises Http404."""
        return get_object_or_404(visible_imports(self.request.user), pk=upload_id)

    def initiated_file(self, upload_id: int, number: int) -> OpenedFile:
        """Return a file of an import whose upload has not ended.

        Raises Http404; DomainError opened_gone.
        """
        upload = self.upload(upload_id)
        file = get_object_or_404(upload.files, number=number)
        uploads.initiated_check(upload)
        return file
