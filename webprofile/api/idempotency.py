"""Twice is once: a request with `Idempotency-Key` that makes a task makes one only."""

import datetime
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter

from accounts.models import User
from tasks.models import IdempotencyKey, Task
from webprofile.api.authentication import UserRequest
from webprofile.errors import DomainError

KEY_LIMIT = 200
#: a first request that has not ended after this long never will: its process is gone
PATIENCE = datetime.timedelta(seconds=60)
PARAMETER = OpenApiParameter(
    "Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description=f"1 to {KEY_LIMIT} printable ASCII characters of the caller's choice. For a day, "
    "the same key with the same request answers with the same task.",
    pattern=r"^[!-~]{1,200}$",
)
ERRORS = ["idempotency_key_bad", "idempotency_key_reused"]


class Once:
    """One use of a key; `task` is what an earlier request with it made, None for the first."""

    def __init__(self, row: IdempotencyKey | None, task: Task | None) -> None:
        self._row, self.task = row, task
        self._kept: Task | None = None

    def keep(self, task: Task) -> None:
        """Bind the key to what was made, in the transaction that makes it."""
        self._kept = task
        if self._row is not None:
            IdempotencyKey.objects.filter(pk=self._row.pk).update(task=task)

    def go_on(self) -> None:
        """Finish what an earlier request left half made as this one's own: if it fails, the key is
        free.
        """
        self._kept, self.task = self.task, None

    def take_over(self) -> None:
        """Free the key of a task that an earlier request left half made; this one is the first now.

        Raises DomainError idempotency_in_progress while the earlier one may go on.
        """
        if self._row is not None:
            _take_over(self._row, self.task)
        self.task = None

    def forget(self) -> None:
        """Free the key, unless another request took it over meanwhile."""
        if self._row is not None:
            IdempotencyKey.objects.filter(pk=self._row.pk, task=self._kept).delete()


@contextmanager
def once(request: UserRequest) -> Iterator[Once]:
    """Claim the request's key; one that fails inside frees it, so that it may be tried again.

    Raises DomainError: idempotency_key_bad, idempotency_key_reused, idempotency_in_progress.
    """
    key = request.headers.get("Idempotency-Key")
    use = Once(None, None) if key is None else _claimed(key, _digest(request), request.user)
    try:
        yield use
    except BaseException:
        if use.task is None:
            use.forget()
        raise


def _claimed(key: str, digest: str, reader: User) -> Once:
    if not (0 < len(key) <= KEY_LIMIT and key.isascii() and key.isprintable() and " " not in key):
        raise DomainError("idempotency_key_bad", status=422, limit=KEY_LIMIT)
    old = timezone.now() - datetime.timedelta(seconds=settings.IDEMPOTENCY_S)
    IdempotencyKey.objects.filter(created_at__lt=old).delete()
    row, is_new = IdempotencyKey.objects.select_related("task").get_or_create(
        user=reader, key=key, defaults={"request_sha256": digest}
    )
    if is_new:
        return Once(row, None)
    if row.request_sha256 != digest:
        raise DomainError("idempotency_key_reused", status=422)
    if row.task is not None:
        return Once(row, row.task)
    _take_over(row, None)
    return Once(row, None)


def _take_over(row: IdempotencyKey, made: Task | None) -> None:
    """Go on where a process is gone that came as far as `made`; of those who come now, one does."""
    now = timezone.now()
    stale = IdempotencyKey.objects.filter(pk=row.pk, task=made, created_at__lt=now - PATIENCE)
    if not stale.update(created_at=now, task=None):
        raise DomainError("idempotency_in_progress", status=409)


def _digest(request: UserRequest) -> str:
    body = json.dumps(request.data, sort_keys=True)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
