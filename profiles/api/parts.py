"""API views to upload large files in parts."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from agent.protocol.multipart import MOST_PARTS
from profiles.api.base import ResultView
from profiles.models import OpenedFile
from profiles.parts import SIGNED_AT_ONCE, join_upload_parts, part_targets
from tasks.models import TaskFile
from tasks.submission.creation import check_initiated
from webprofile import fields
from webprofile.api.schema import problems
from webprofile.api.uploads import JoinedAnswer, PartAddressesAnswer


class PartAsked(fields.Body):
    """A part."""

    number = fields.Integer(min_value=1, help_text="From 1.")
    md5 = fields.Text(
        allow_null=True,
        default=None,
        max_length=32,
        help_text="Its MD5, 32 lower-case hexadecimal digits, if storage itself is to check it.",
    )


class PartsBody(fields.Body):
    """The parts to be sent."""

    upload = fields.Key(help_text="The upload attempt, as in `parts` of the file.")
    parts = PartAsked(  # type: ignore[call-arg]
        many=True, max_length=SIGNED_AT_ONCE, help_text=f"At most {SIGNED_AT_ONCE}."
    )


class JoinBody(fields.Body):
    """The checksums of all parts."""

    md5s = fields.List(
        child=fields.Text(max_length=32),
        max_length=MOST_PARTS,
        help_text=(
            "The MD5 of each part, in their order: the `ETag` with which storage answered its `PUT`"
            " without the quotes, or the sender's own sum. Of parts that `done` named at the"
            " beginning it must be his own."
        ),
    )


def address_parts(file: TaskFile | OpenedFile, data: Any) -> Response:
    """Return the URLs to send parts to. data: of a `PartsBody`"""
    body = PartsBody.read(data)
    parts = [(part["number"], part["md5"]) for part in body["parts"]]
    return Response({"parts": part_targets(file, body["upload"], parts)})


def join_parts(file: TaskFile | OpenedFile, data: Any) -> Response:
    """Join the parts of a file and return it. data: of a `JoinBody`"""
    join_upload_parts(file, JoinBody.read(data)["md5s"])
    return Response(JoinedAnswer(file).data)


class TaskFileParts(ViewSetMixin, ResultView):
    """A file of a task that is sent in parts."""

    @extend_schema(
        summary="Request URLs for parts",
        request=PartsBody,
        responses={200: PartAddressesAnswer}
        | problems(
            {
                409: ["not_initiated", "parts_restarted", "parts_unwanted"],
                422: ["invalid", "parts_bad", "checksum_bad"],
            }
        ),
        operation_id="tasks_file_parts",
    )
    def parts(self, request: Request, task_id: int, file_id: int) -> Response:
        """Upload each part by `PUT`, in parallel and in any order. If one fails, request it again.

        After `parts_restarted`, renew the upload URLs; the response tells which parts are missing.
        """
        return address_parts(self.file(task_id, file_id), request.data)

    @extend_schema(
        summary="Join a file's parts",
        request=JoinBody,
        responses={200: JoinedAnswer}
        | problems(
            {
                409: ["not_initiated", "parts_unwanted", "upload_missing", "upload_damaged"],
                422: ["invalid", "checksum_bad"],
            }
        ),
        operation_id="tasks_file_join",
    )
    def join(self, request: Request, task_id: int, file_id: int) -> Response:
        """Check that all parts have arrived undamaged, and join them to the file.

        Idempotent. After `upload_damaged`, all parts must be sent again.
        """
        return join_parts(self.file(task_id, file_id), request.data)

    def file(self, task_id: int, file_id: int) -> TaskFile:
        """Return a file of a task whose upload has not ended.

        Raises Http404; DomainError not_initiated.
        """
        task = self.task(task_id)
        file = get_object_or_404(task.files, pk=file_id)
        check_initiated(task)
        return file
