"""Secrets of workers: enrolment codes and tokens, opaque and stored as SHA-256.

Their prefixes let secret scanners recognize leaked secrets. A token has 256 random bits, so an
unsalted SHA-256 cannot be reversed by guessing. Tokens are looked up by their digest, so that the
time of the comparison does not depend on the secret.
"""

import datetime
import hashlib
import secrets
from collections.abc import Iterable

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webprofile.errors import DomainError
from webprofile.realtime.layer import send_to_groups
from workers.models import Worker, WorkerSecret

TOKEN_PREFIX = "mgw_"
CODE_PREFIX = "mge_"
CODE_LIFETIME = datetime.timedelta(hours=24)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def bearer_of(header: str) -> str:
    """Return the token of an Authorization header; empty if there is none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@transaction.atomic
def issue_code(worker: Worker) -> str:
    """Return a new enrolment code, valid once within `CODE_LIFETIME`; revoke earlier codes."""
    revoke_codes(worker)
    code = CODE_PREFIX + secrets.token_urlsafe(24)
    worker.secrets.create(
        kind=WorkerSecret.SecretKind.CODE,
        sha256=digest(code),
        expires_at=timezone.now() + CODE_LIFETIME,
    )
    return code


@transaction.atomic
def redeem_code(code: str) -> tuple[Worker, str]:
    """Exchange an enrolment code for a token; revoke the worker's earlier tokens.

    Raises DomainError: code_unknown, code_used, code_expired.
    """
    now = timezone.now()
    row = WorkerSecret.objects.filter(
        kind=WorkerSecret.SecretKind.CODE, sha256=digest(code)
    ).first()
    if row is None:
        raise DomainError("code_unknown", status=403)
    if row.used_at or row.revoked_at:
        raise DomainError("code_used", status=403)
    if row.expires_at is not None and row.expires_at < now:
        raise DomainError("code_expired", status=403)
    # the row count decides if the code is used or revoked concurrently
    unused = WorkerSecret.objects.filter(pk=row.pk, used_at=None, revoked_at=None)
    if not unused.update(used_at=now):
        raise DomainError("code_used", status=403)
    revoke_tokens(row.worker)
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    row.worker.secrets.create(kind=WorkerSecret.SecretKind.TOKEN, sha256=digest(token))
    return row.worker, token


def revoke_codes(worker: Worker) -> int:
    """Revoke the valid enrolment codes of a worker; return how many."""
    now = timezone.now()
    valid = worker.secrets.filter(
        kind=WorkerSecret.SecretKind.CODE, used_at=None, revoked_at=None, expires_at__gt=now
    )
    return valid.update(revoked_at=now)


@transaction.atomic
def revoke_tokens(worker: Worker) -> int:
    """Revoke all tokens of a worker, and close connections that use one; return how many."""
    group = worker_group(worker.pk)
    # without data, because delivery is at most once: the consumers check the token in the database
    transaction.on_commit(lambda: send_to_groups({group}, {"type": "worker.revoked"}), robust=True)
    return worker.secrets.filter(kind=WorkerSecret.SecretKind.TOKEN, revoked_at=None).update(
        revoked_at=timezone.now()
    )


def worker_group(worker_id: int) -> str:
    return f"worker.{worker_id}"


def valid_tokens(digests: Iterable[str]) -> QuerySet[WorkerSecret]:
    """Return the rows of the valid tokens among those with these digests."""
    return WorkerSecret.objects.filter(
        kind=WorkerSecret.SecretKind.TOKEN, sha256__in=digests, revoked_at=None
    )


def check_token(token: str) -> Worker:
    """Return the worker that a token belongs to.

    Raises DomainError: token_unknown (401), token_revoked (403).
    """
    row = (
        WorkerSecret.objects.filter(kind=WorkerSecret.SecretKind.TOKEN, sha256=digest(token))
        .select_related("worker")
        .first()
    )
    if row is None:
        raise DomainError("token_unknown", status=401)
    if row.revoked_at:
        raise DomainError("token_revoked", status=403)
    return row.worker
