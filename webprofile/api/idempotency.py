"""Idempotent task creation: repeated requests with one `Idempotency-Key` create one task."""

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
#: A first request that has not finished after this time never will, since its process has died.
PATIENCE = datetime.timedelta(seconds=60)
PARAMETER = OpenApiParameter(
    "Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description=f"1 to {KEY_LIMIT} printable ASCII characters of the caller's choice. For a day, "
    "the same key with the same request answers with the same task.",
    pattern=r"^[!-~]{1,200}$",
)
#: for a request that is only checked
CHECK_PARAMETER = OpenApiParameter(
    "Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description="The key with which the task will be requested. If it has created a task, which a "
    "repetition returns, `earlier` is null.",
)
ERRORS = ["idempotency_key_bad", "idempotency_key_reused"]


class KeyClaim:
    """The claim of a request on its key; `task` is the task of an earlier request, or None."""

    def __init__(self, row: IdempotencyKey | None, task: Task | None) -> None:
        self._row, self.task = row, task
        self._bound_task: Task | None = None

    def keep(self, task: Task) -> None:
        """Bind the key to a new task; call it in the transaction that creates the task.

        Raises DomainError idempotency_in_progress, so that the transaction is rolled back, if this
        request took so long that another one has taken the key over.
        """
        self._bound_task = task
        if self._row is None:
            return
        own = IdempotencyKey.objects.filter(
            pk=self._row.pk, task=None, created_at=self._row.created_at
        )
        if not own.update(task=task):
            raise DomainError("idempotency_in_progress", status=409)

    def go_on(self) -> None:
        """Continue the incomplete task of an earlier request; if this request fails, the key
        becomes free.
        """
        self._bound_task, self.task = self.task, None

    def resume(self) -> None:
        """Continue the task of an earlier request that died before it had completed the task.

        Raises DomainError idempotency_in_progress while the earlier request may still be running.
        """
        if self._row is not None:
            _take_over(self._row, self.task, keeps_task=True)
        self.go_on()

    def take_over(self) -> None:
        """Drop the incomplete task of an earlier request and treat this request as the first one.

        Raises DomainError idempotency_in_progress while the earlier request may still be running.
        """
        if self._row is not None:
            _take_over(self._row, self.task)
        self.task = None

    def forget(self) -> None:
        """Free the key, unless another request has taken it over."""
        if self._row is not None:
            own = IdempotencyKey.objects.filter(pk=self._row.pk, created_at=self._row.created_at)
            own.filter(task=self._bound_task).delete()


@contextmanager
def once(request: UserRequest) -> Iterator[KeyClaim]:
    """Claim the key of a request; an exception in the block frees it for another attempt.

    Raises DomainError: idempotency_key_bad, idempotency_key_reused, idempotency_in_progress.
    """
    key = request.headers.get("Idempotency-Key")
    claim = KeyClaim(None, None) if key is None else _claim(key, _digest(request), request.user)
    try:
        yield claim
    except BaseException:
        if claim.task is None:
            claim.forget()
        raise


def _claim(key: str, digest: str, user: User) -> KeyClaim:
    if not (0 < len(key) <= KEY_LIMIT and key.isascii() and key.isprintable() and " " not in key):
        raise DomainError("idempotency_key_bad", status=422, limit=KEY_LIMIT)
    IdempotencyKey.objects.filter(created_at__lt=_expiry()).delete()
    row, is_new = IdempotencyKey.objects.select_related("task").get_or_create(
        user=user, key=key, defaults={"request_sha256": digest}
    )
    if is_new:
        return KeyClaim(row, None)
    if row.request_sha256 != digest:
        raise DomainError("idempotency_key_reused", status=422)
    if row.task is not None:
        return KeyClaim(row, row.task)
    _take_over(row, None)
    return KeyClaim(row, None)


def has_task(request: UserRequest) -> bool:
    """Return whether a request with this key has created a task, which a repetition returns."""
    key = request.headers.get("Idempotency-Key")
    keys = IdempotencyKey.objects.filter(user=request.user, created_at__gte=_expiry())
    return key is not None and keys.filter(key=key).exclude(task=None).exists()


def _expiry() -> datetime.datetime:
    """Return the time before which keys have expired."""
    return timezone.now() - datetime.timedelta(seconds=settings.IDEMPOTENCY_S)


def _take_over(row: IdempotencyKey, task: Task | None, *, keeps_task: bool = False) -> None:
    """Take over the key of a request whose process died when its task was `task`.

    keeps_task: continue that task instead of creating another one

    Of concurrent requests one succeeds. Raises DomainError idempotency_in_progress in the others.
    """
    now = timezone.now()
    stale = IdempotencyKey.objects.filter(pk=row.pk, task=task, created_at__lt=now - PATIENCE)
    if not stale.update(created_at=now, task=task if keeps_task else None):
        raise DomainError("idempotency_in_progress", status=409)
    row.created_at = now


def _digest(request: UserRequest) -> str:
    body = json.dumps(request.data, sort_keys=True)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
