"""Secrets of workers: opaque, prefixed so that scanners find a leaked one, stored as sha256.

A token has 256 random bits, so a plain sha256 cannot be reversed by guessing; it is looked up by
its digest, which makes the comparison independent of the secret's bytes.
"""

import datetime
import hashlib
import secrets
from collections.abc import Iterable

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webprofile.errors import DomainError
from workers import wakeups
from workers.models import Worker, WorkerSecret

TOKEN_PREFIX = "mgw_"
CODE_PREFIX = "mge_"
CODE_LIFETIME = datetime.timedelta(hours=24)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def bearer_of(header: str) -> str:
    """The token in an Authorization header; empty if there is none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@transaction.atomic
def issue_code(worker: Worker) -> str:
    """Return a new enrolment code: valid once, for a day. Codes issued before are void."""
    codes_revoke(worker)
    code = CODE_PREFIX + secrets.token_urlsafe(24)
    worker.secrets.create(
        kind=WorkerSecret.Kind.CODE,
        sha256=digest(code),
        expires_at=timezone.now() + CODE_LIFETIME,
    )
    return code


@transaction.atomic
def redeem_code(code: str) -> tuple[Worker, str]:
    """Turn an enrolment code into a token; the worker's earlier tokens are revoked.

    Raises DomainError: code_unknown, code_used, code_expired.
    """
    now = timezone.now()
    row = WorkerSecret.objects.filter(kind=WorkerSecret.Kind.CODE, sha256=digest(code)).first()
    if row is None:
        raise DomainError("code_unknown", status=403)
    if row.used_at or row.revoked_at:
        raise DomainError("code_used", status=403)
    if row.expires_at is not None and row.expires_at < now:
        raise DomainError("code_expired", status=403)
    # of two agents that redeem one code at once, one wins; one that was voided meanwhile is void
    unused = WorkerSecret.objects.filter(pk=row.pk, used_at=None, revoked_at=None)
    if not unused.update(used_at=now):
        raise DomainError("code_used", status=403)
    revoke_tokens(row.worker)
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    row.worker.secrets.create(kind=WorkerSecret.Kind.TOKEN, sha256=digest(token))
    return row.worker, token


def codes_revoke(worker: Worker) -> int:
    """Void the enrolment codes of a worker that nobody used yet; returns how many."""
    unused = worker.secrets.filter(kind=WorkerSecret.Kind.CODE, used_at=None, revoked_at=None)
    return unused.update(revoked_at=timezone.now())


@transaction.atomic
def revoke_tokens(worker: Worker) -> int:
    """Void every token of a worker and tell who uses one; returns how many were valid."""
    wakeups.worker_revoked_on_commit(worker.pk)
    return worker.secrets.filter(kind=WorkerSecret.Kind.TOKEN, revoked_at=None).update(
        revoked_at=timezone.now()
    )


def valid_tokens(digests: Iterable[str]) -> set[str]:
    """Those of some tokens' digests that may still be used, in one query."""
    return set(_usable(digests).values_list("sha256", flat=True))


def usable(token: str) -> QuerySet[WorkerSecret]:
    """The row of a token, if it may still be used."""
    return _usable([digest(token)])


def _usable(digests: Iterable[str]) -> QuerySet[WorkerSecret]:
    return WorkerSecret.objects.filter(
        kind=WorkerSecret.Kind.TOKEN, sha256__in=digests, revoked_at=None
    )


def check_token(token: str) -> Worker:
    """Return the worker that a token belongs to.

    Raises DomainError: token_unknown (401), token_revoked (403).
    """
    row = (
        WorkerSecret.objects.filter(kind=WorkerSecret.Kind.TOKEN, sha256=digest(token))
        .select_related("worker")
        .first()
    )
    if row is None:
        raise DomainError("token_unknown", status=401)
    if row.revoked_at:
        raise DomainError("token_revoked", status=403)
    return row.worker
