"""`manage.py reencrypt`: re-encrypt secrets before a former SECRET_KEY is removed."""

from typing import Any

from cryptography.fernet import InvalidToken
from django.core.management.base import BaseCommand, CommandError

from accounts.encryption import reencrypt_secrets


class Command(BaseCommand):
    help = "Encrypt second factors and webhook secrets again with the current SECRET_KEY."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = reencrypt_secrets()
        except InvalidToken as error:
            raise CommandError(
                "A secret cannot be decrypted with any key: add the former SECRET_KEY to "
                "SECRET_KEY_FALLBACKS."
            ) from error
        self.stdout.write(
            f"{count} secrets are encrypted with SECRET_KEY. Previous keys can be removed."
        )
