"""`manage.py storage_prepare`: create the bucket and configure CORS for the site's pages."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webprofile.errors import DomainError
from webprofile.origins import origin_of
from webprofile.storage import storage


class Command(BaseCommand):
    help = "Create the bucket if it is missing, and allow this site's pages to use it (CORS)."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        origins = sorted({origin_of(settings.SITE_URL), *settings.CSRF_TRUSTED_ORIGINS})
        try:
            made, allowed = storage.prepare(origins)
        except DomainError as error:
            text = f"{settings.S3_ENDPOINT_URL} refused to create or read this bucket"
            raise CommandError(f"{text}: {settings.S3_BUCKET}. Check address and keys.") from error
        state = "created" if made else "exists"
        self.stdout.write(f"Bucket {settings.S3_BUCKET}: {state}.")
        if allowed:
            self.stdout.write(f"Pages of {', '.join(origins)} may use it.")
        else:
            self.stdout.write(
                "This storage does not accept CORS rules through its API: allow "
                f"{', '.join(origins)} in its own settings (MinIO: MINIO_API_CORS_ALLOW_ORIGIN)."
            )
