"""Serializers of results and imports."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from profiles.exports.formats import FORMATS
from profiles.exports.originals import originals_of
from profiles.exports.provenance import title_of
from profiles.imports.progress import reading_of
from profiles.imports.uploads import RETRIED
from profiles.models import OpenedFile, Profile, ProfileUpload
from webprofile.answers import texts
from webprofile.api.uploads import UploadAnswer
from webprofile.errors import DomainError
from webprofile.messages.errors import word


class ProfileRow(serializers.ModelSerializer[Profile]):
    """A result in a list."""

    title = serializers.SerializerMethodField(
        help_text="File name of the model, or name of the import."
    )
    origin = serializers.SerializerMethodField(help_text="Of a task, or opened from files.")
    task = serializers.IntegerField(
        source="attempt.task_id",
        allow_null=True,
        read_only=True,
        help_text="The task that produced it; null for an import.",
    )
    attempt = serializers.IntegerField(
        source="attempt.number",
        allow_null=True,
        read_only=True,
        help_text="Number of the task's attempt, or null.",
    )
    opened = serializers.IntegerField(
        source="upload_id", allow_null=True, help_text="The imported profile; null: of a task."
    )
    owner = serializers.CharField(source="owner.email", help_text="E-mail address of its owner.")
    worker_name = serializers.SerializerMethodField(help_text="The device, or empty.")
    runtime_version = serializers.SerializerMethodField(help_text="MegEngine, or empty.")

    class Meta:
        model = Profile
        fields: tuple[str, ...] = (
            "id", "title", "origin", "task", "attempt", "opened", "owner", "worker_name",
            "runtime_version", "operators", "device_total_s", "host_total_s", "iterations",
            "mean_ms", "min_ms", "max_ms", "built_at",
        )  # fmt: skip
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "operators": {"help_text": "Number of operators."},
            "device_total_s": {"help_text": "Sum of self times on the device, s; null: none."},
            "host_total_s": {"help_text": "Sum of self times on the host, s; null: none."},
            "iterations": {"help_text": "Number of iterations in the log of the first pass."},
            "mean_ms": {"help_text": "Mean iteration time while profiling, ms."},
            "min_ms": {"help_text": "Minimum, ms."},
            "max_ms": {"help_text": "Maximum, ms."},
            "built_at": {"help_text": "When it was last parsed."},
        }

    def get_title(self, profile: Profile) -> str:
        return title_of(profile)

    @extend_schema_field(serializers.ChoiceField(["task", "opened"]))
    def get_origin(self, profile: Profile) -> str:
        return "opened" if profile.attempt is None else "task"

    def get_worker_name(self, profile: Profile) -> str:
        return profile.task.worker.name if profile.task else ""

    def get_runtime_version(self, profile: Profile) -> str:
        return profile.task.runtime_version if profile.task else ""


class RawAnswer(serializers.Serializer):
    """A file of the run as MegEngine wrote it."""

    number = serializers.IntegerField(help_text="From 1; of a profiled pass its number.")
    kind = serializers.CharField(help_text="profile, trace, memory_flow, static_memory or graph.")
    name = serializers.CharField(help_text="Name.")
    size_bytes = serializers.IntegerField(help_text="Its size in bytes.")
    url = serializers.CharField(help_text="URL of the download, which redirects to storage.")


class ProfileAnswer(ProfileRow):
    """A result."""

    warnings = texts("Warnings of the parser, in English.")
    is_ready = serializers.SerializerMethodField(
        help_text="false: its data could not be recomputed; the raw files are kept."
    )
    raw = serializers.SerializerMethodField(help_text="The raw files, by pass.")
    exports = serializers.SerializerMethodField(help_text="Names of the formats of its exports.")
    page = serializers.CharField(source="page_url", read_only=True, help_text="URL of its page.")

    class Meta(ProfileRow.Meta):
        fields = (*ProfileRow.Meta.fields, "warnings", "is_ready", "raw", "exports", "page")

    def get_is_ready(self, profile: Profile) -> bool:
        return not profile.problem

    @extend_schema_field(RawAnswer(many=True))
    def get_raw(self, profile: Profile) -> list[dict[str, Any]]:
        return [
            {
                "number": original.number,
                "kind": original.kind,
                "name": original.name,
                "size_bytes": original.size_bytes,
                "url": reverse("api:profile-raw", args=[profile.pk, original.number]),
            }
            for original in originals_of(profile)
        ]

    def get_exports(self, profile: Profile) -> list[str]:
        return list(FORMATS)


class OpenedFileAnswer(serializers.ModelSerializer[OpenedFile]):
    """A file of an imported profile."""

    class Meta:
        model = OpenedFile
        fields = ("number", "kind", "name", "size_bytes", "md5")
        extra_kwargs = {
            "number": {"help_text": "Its place among them, from 1."},
            "kind": {"help_text": "Kind of file, from its first bytes."},
            "name": {"help_text": "Name given by its owner."},
            "size_bytes": {"help_text": "Its size in bytes."},
            "md5": {
                "help_text": "Its MD5, 32 hexadecimal digits; of a file in parts the MD5 of their "
                "MD5s, then `-` and how many; empty until they arrived."
            },
        }


class ProgressAnswer(serializers.Serializer):
    """Progress of reading the files."""

    step = serializers.CharField(
        help_text="Phase: `fetching` from storage, `reading` or `adding_up`."
    )
    percent = serializers.IntegerField(help_text="Of the files' bytes.")
    text = serializers.CharField(help_text="Text in the user's language.")


class OpenedAnswer(serializers.ModelSerializer[ProfileUpload]):
    """A profile that was recorded elsewhere and imported."""

    owner = serializers.CharField(source="owner.email", help_text="E-mail address of its owner.")
    profile = serializers.SerializerMethodField(help_text="The result, once it is ready, or null.")
    problem_text = serializers.SerializerMethodField(
        help_text=(
            "Cause of the failure and next step, in the user's language; empty if it did not fail."
        )
    )
    may_retry = serializers.SerializerMethodField(help_text="Whether a retry may succeed.")
    progress = serializers.SerializerMethodField(
        help_text="Progress of parsing, or null if unknown."
    )
    files = OpenedFileAnswer(many=True, help_text="Its files: passes, and other files of the run.")

    class Meta:
        model = ProfileUpload
        fields: tuple[str, ...] = (
            "id", "name", "state", "problem", "problem_text", "problem_detail", "may_retry",
            "owner", "size_bytes", "created_at", "profile", "progress", "files",
        )  # fmt: skip
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Name given by its owner."},
            "state": {
                "help_text": "initiated: files are on their way; processing: they are read; ready: "
                "see `profile`; failed: see `problem_text`."
            },
            "problem": {"help_text": "Stable code of why it failed, or empty."},
            "problem_detail": {"help_text": "Details in English."},
            "size_bytes": {"help_text": "Of all files together, bytes."},
            "created_at": {"help_text": "When it was imported."},
        }

    def get_profile(self, upload: ProfileUpload) -> int | None:
        profile = getattr(upload, "profile", None)
        return profile.pk if profile else None

    def get_problem_text(self, upload: ProfileUpload) -> str:
        if upload.state != ProfileUpload.State.FAILED:
            return ""
        return word(DomainError(f"opened_{upload.problem}", name=upload.name))

    @extend_schema_field(ProgressAnswer(allow_null=True))
    def get_progress(self, upload: ProfileUpload) -> dict[str, Any] | None:
        reading = reading_of(upload)
        return None if reading is None else ProgressAnswer(reading).data

    def get_may_retry(self, upload: ProfileUpload) -> bool:
        return upload.problem in RETRIED


class CreatedOpened(OpenedAnswer):
    """An imported profile, and the URLs to upload its files to."""

    uploads = UploadAnswer(many=True, help_text="One for each file, in order.")

    class Meta(OpenedAnswer.Meta):
        fields = (*OpenedAnswer.Meta.fields, "uploads")
