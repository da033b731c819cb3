"""Profiles made elsewhere: announced, uploaded, submitted; renamed and deleted."""

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from profiles.models import ProfileUpload
from profiles.opened import uploads
from profiles.opened.importing import attempt_open, upload_submit, upload_targets
from profiles.rest.access import ResultView
from profiles.rest.answers import CreatedOpened, OpenedAnswer
from profiles.rest.bodies import OpenBody, RenameBody, files_asked
from profiles.rest.filters import OpenedFilters
from profiles.selectors import uploads_visible_to
from tasks.rest.answers import UploadsAnswer
from webprofile.rest.schema import documented, redirect_to
from webprofile.rest.views import ApiListView
from webprofile.storage import storage

REFUSALS = ["invalid", "opened_*", "file_*", "checksum_bad", "parts_not_here"]


class OpenedList(ApiListView):
    """Opened profiles."""

    serializer_class = OpenedAnswer
    filterset_class = OpenedFilters

    def rows(self) -> QuerySet[ProfileUpload]:
        return uploads_visible_to(self.reader)

    @documented(
        "List opened profiles",
        answers={200: OpenedAnswer(many=True)},
        operation_id="profiles_opened_list",
    )
    def get(self, request: Request) -> Response:
        """Those that one opened; an administrator sees all."""
        return self.list(request)

    @documented(
        "Open a profile",
        body=OpenBody,
        answers={201: CreatedOpened},
        errors={422: REFUSALS},
        operation_id="profiles_opened_create",
    )
    def post(self, request: Request) -> Response:
        """Announces files; the answer holds an address for each. Send each by `PUT`, then submit.

        Several files are those of one run: profiled passes of one model, its trace, its memory.
        """
        body = self.read(OpenBody)
        upload = uploads.upload_create(
            owner=self.reader, files=files_asked(body), name=body["name"]
        )
        answer = OpenedAnswer(upload).data | {"uploads": upload_targets(upload)}
        headers = {"Location": reverse("api:opened", args=[upload.pk])}
        return Response(answer, status=201, headers=headers)


class OpenedDetail(ResultView):
    """One opened profile."""

    @documented(
        "Show an opened profile",
        answers={200: OpenedAnswer},
        operation_id="profiles_opened_show",
    )
    def get(self, request: Request, upload_id: int) -> Response:
        """What became of it."""
        return Response(OpenedAnswer(self.upload(upload_id)).data)

    @documented(
        "Rename an opened profile",
        body=RenameBody,
        answers={200: OpenedAnswer},
        errors={422: ["invalid", "opened_name"]},
        operation_id="profiles_opened_rename",
    )
    def patch(self, request: Request, upload_id: int) -> Response:
        """Give it another name."""
        upload = self.upload(upload_id)
        uploads.upload_rename(upload, self.read(RenameBody)["name"])
        return Response(OpenedAnswer(upload).data)

    @documented(
        "Delete an opened profile", answers={204: None}, operation_id="profiles_opened_delete"
    )
    def delete(self, request: Request, upload_id: int) -> Response:
        """It is gone at once; its files leave storage soon after."""
        uploads.upload_delete(self.upload(upload_id), by=self.reader)
        return Response(status=204)


class OpenedUploads(ResultView):
    """Addresses for files."""

    @documented(
        "Renew an opened profile's addresses",
        answers={200: UploadsAnswer},
        errors={409: ["opened_gone"]},
        operation_id="profiles_opened_uploads",
    )
    def post(self, request: Request, upload_id: int) -> Response:
        """For an upload that broke, or took longer than its address lives; of files in parts it
        says which parts have arrived.
        """
        upload = self.upload(upload_id)
        uploads.initiated_check(upload)
        return Response({"uploads": upload_targets(upload)})


class OpenedSubmit(ResultView):
    """The end of the uploads."""

    @documented(
        "Submit an opened profile",
        answers={200: OpenedAnswer},
        errors={409: ["upload_missing", "upload_damaged", "opened_gone"]},
        operation_id="profiles_opened_submit",
    )
    def post(self, request: Request, upload_id: int) -> Response:
        """Looks whether all files arrived whole, and has them read.

        Repeating it changes nothing.
        """
        upload = self.upload(upload_id)
        upload_submit(upload)
        return Response(OpenedAnswer(self.upload(upload_id)).data)


class OpenedRetry(ResultView):
    """Once more."""

    @documented(
        "Read an opened profile once more",
        answers={200: OpenedAnswer},
        operation_id="profiles_opened_retry",
    )
    def post(self, request: Request, upload_id: int) -> Response:
        """After a failure that was not the files' own (`may_retry`); else nothing changes."""
        uploads.upload_retry(self.upload(upload_id))
        return Response(OpenedAnswer(self.upload(upload_id)).data)


class OpenedOfAttempt(ResultView):
    """What an attempt without a result recorded."""

    @documented(
        "Open what an attempt recorded",
        answers={200: OpenedAnswer, 201: OpenedAnswer},
        errors={
            404: ["not_found", "object_missing"],
            409: [
                "attempt_has_result",
                "attempt_recorded_nothing",
                "upload_missing",
                "upload_damaged",
            ],
            410: ["removed_by_rule"],
            422: REFUSALS,
        },
        operation_id="tasks_attempt_open",
    )
    def post(self, request: Request, task_id: int, number: int) -> Response:
        """Makes an opened profile of one's own of the files of an attempt that failed, was
        cancelled or ran out of time: its passes, trace and memory, together as one run.

        They are copied inside storage, and read as if they had been uploaded. 200: these very
        files have been opened before, and the answer is that profile.
        """
        attempt = self.task(task_id).attempts.filter(number=number).first()
        if attempt is None:
            raise Http404
        found = attempt_open(attempt, owner=self.reader)
        upload = self.upload(found.upload.pk)
        headers = {"Location": reverse("api:opened", args=[upload.pk])}
        status = 201 if found.is_new else 200
        return Response(OpenedAnswer(upload).data, status=status, headers=headers)


class OpenedContent(ResultView):
    """A file as it was uploaded."""

    @documented(
        "Fetch a file of an opened profile",
        answers=redirect_to("the file in storage"),
        operation_id="profiles_opened_file",
    )
    def get(self, request: Request, upload_id: int, number: int) -> HttpResponse:
        """A redirect to storage. Do not send the token along."""
        upload = self.upload(upload_id)
        found = upload.files.filter(number=number).first()
        if found is None or upload.state == ProfileUpload.State.INITIATED:
            raise Http404
        return redirect(storage.presign_get(found.object_key, filename=found.name))
