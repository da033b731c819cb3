"""Recognise exceptions that mean that a service of the site does not answer."""

from botocore.exceptions import BotoCoreError
from django.db.utils import OperationalError, ProgrammingError
from redis.exceptions import RedisError

from webprofile.errors import DomainError


def outage_of(error: BaseException) -> DomainError | None:
    """Return DomainError database_unreachable, redis_unreachable or storage_unreachable.

    None for any other exception. A missing table counts as an unreachable database: SQLite and
    PostgreSQL report it as different exceptions, and the next step is the same.
    """
    codes: list[tuple[type[BaseException], str]] = [
        (RedisError, "redis_unreachable"),
        (BotoCoreError, "storage_unreachable"),
        (OperationalError, "database_unreachable"),
        (ProgrammingError, "database_unreachable"),
    ]
    for kind, code in codes:
        if isinstance(error, kind):
            return DomainError(code, status=503)
    return None
