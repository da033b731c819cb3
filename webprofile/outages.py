"""Recognise exceptions that mean that a service of the site does not answer."""

import structlog
from botocore.exceptions import BotoCoreError
from django.db.utils import OperationalError, ProgrammingError
from redis.exceptions import RedisError

from webprofile.errors import DomainError

log = structlog.get_logger()
#: SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html)
_UNDEFINED_TABLE = "42P01"


def outage_of(error: BaseException) -> DomainError | None:
    """Return DomainError database_unreachable, redis_unreachable or storage_unreachable.

    None for any other exception. A missing table counts as an unreachable database, since the next
    step is the same. SQLite reports it as OperationalError, PostgreSQL as ProgrammingError.
    """
    if isinstance(error, ProgrammingError):
        is_missing = getattr(error.__cause__, "sqlstate", "") == _UNDEFINED_TABLE
        return DomainError("database_unreachable", status=503) if is_missing else None
    codes: list[tuple[type[BaseException], str]] = [
        (RedisError, "redis_unreachable"),
        (BotoCoreError, "storage_unreachable"),
        (OperationalError, "database_unreachable"),
    ]
    for kind, code in codes:
        if isinstance(error, kind):
            return DomainError(code, status=503)
    return None


def logged_outage(error: BaseException) -> DomainError | None:
    """Return and log the outage of Redis or storage, of which requests are told.

    None for any other exception. Without the database, pages cannot be rendered.
    """
    outage = outage_of(error)
    if outage is None or outage.code == "database_unreachable":
        return None
    log.warning("part_unreachable", code=outage.code, error=str(error))
    return outage
