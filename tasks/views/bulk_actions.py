"""Bulk actions of the task list: call a service for each selected task, and report refusals."""

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from accounts.selectors import current_user
from profiles.comparison.comparison import FEWEST, MOST
from profiles.retention.deletion import delete_task
from profiles.selectors import profile_of
from tasks.lifecycle.cancel import CancelReport, cancel_and_check
from tasks.models import Baseline, Task
from tasks.pagination import PAGE_SIZE
from tasks.selectors import listed_tasks
from tasks.states import Status, TaskState
from tasks.submission.copies import repeat_task
from webprofile.errors import DomainError
from webprofile.integers import parse_key
from webprofile.messages.errors import word

#: limit on the waiting tasks that one request cancels
MOST_IDS = 1000


class BulkAction(enum.StrEnum):
    COMPARE = "compare"
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"
    CANCEL_WAITING = "cancel-waiting"

    @property
    def is_final(self) -> bool:
        """Whether the action needs a confirmation because it cannot be undone."""
        return self in {BulkAction.DELETE, BulkAction.CANCEL_WAITING}


def selected_tasks(
    user: User, action: BulkAction, numbers: Sequence[str]
) -> tuple[list[Task], list[int]]:
    """Return the selected tasks, newest first, and the ids of those that the user may not see.

    At most one page; values that are not ids are ignored. CANCEL_WAITING selects the user's own
    waiting tasks instead, at most `MOST_IDS`.
    """
    tasks = listed_tasks(user)
    if action is BulkAction.CANCEL_WAITING:
        waiting = [TaskState.INITIATED, TaskState.WAITING, TaskState.ASSIGNED]
        own = tasks.filter(owner=user, state__in=waiting).order_by("-pk")
        return list(own[:MOST_IDS]), []
    parsed = {parse_key(text) for text in numbers}
    keys = sorted(filter(None, parsed), reverse=True)[:PAGE_SIZE]
    rows = list(tasks.filter(pk__in=keys).order_by("-pk"))
    known = {task.pk for task in rows}
    return rows, [key for key in keys if key not in known]


def comparison_url(tasks: Sequence[Task]) -> str:
    """Return the URL of a comparison of the tasks' results.

    The baseline is the pinned one among them, otherwise the oldest. Tasks without a result are
    ignored. Empty if the number of results cannot be compared.
    """
    done = [task for task in tasks if task.status == Status.SUCCEEDED]
    if len(done) > MOST:
        return ""
    pinned = set(Baseline.objects.filter(task__in=done).values_list("task_id", flat=True))
    ordered = sorted(reversed(done), key=lambda task: task.pk not in pinned)
    profiles = [profile_of(task) for task in ordered]
    numbers = [profile.pk for profile in profiles if profile is not None]
    if not FEWEST <= len(numbers) <= MOST:
        return ""
    return f"{reverse('profiles:compare')}?{urlencode([('p', number) for number in numbers])}"


def run_bulk_action(
    request: HttpRequest, action: BulkAction, tasks: Sequence[Task], unknown: list[int]
) -> None:
    """Apply an action to each task; a refusal does not affect the other tasks.

    The next page shows messages about the result.
    """
    done, left = 0, defaultdict[str, list[int]](list)
    # tasks are repeated in order of submission, and cancelled from the end of the queue, so that a
    # freed slot does not start a task that is cancelled next
    for task in reversed(tasks) if action is BulkAction.RETRY else tasks:
        try:
            _act_on_one(action, task, current_user(request))
            done += 1
        except DomainError as error:
            left[word(error)].append(task.pk)
    if unknown:
        left[word(DomainError("task_unknown"))] += unknown
    cancelled = ngettext("%(count)s task cancelled.", "%(count)s tasks cancelled.", done)
    texts = {
        BulkAction.CANCEL: cancelled,
        BulkAction.CANCEL_WAITING: cancelled,
        BulkAction.RETRY: ngettext("%(count)s task re-queued.", "%(count)s tasks re-queued.", done),
        BulkAction.DELETE: ngettext("%(count)s task deleted.", "%(count)s tasks deleted.", done),
    }
    if done:
        messages.success(request, texts[action] % {"count": done})
    elif not left and action is BulkAction.CANCEL_WAITING:
        messages.info(request, _("None of your tasks is waiting."))
    elif not left:
        messages.info(request, _("No eligible tasks selected."))
    if left:
        messages.warning(request, left_words(left))


def cancel_words(report: CancelReport) -> str:
    number = len(report.cancelled)
    text = ngettext("%(n)s task was cancelled.", "%(n)s tasks were cancelled.", number)
    codes = {"run_over": report.ended, "task_unknown": report.unknown}
    left = {word(DomainError(code)): pks for code, pks in codes.items() if pks}
    return "\n".join([text % {"n": number}, *([left_words(left)] if left else [])])


def left_words(left: Mapping[str, Sequence[int]]) -> str:
    """Return the message about tasks that were left out, with one line for each error."""
    count = sum(map(len, left.values()))
    first = ngettext("%(count)s task was skipped:", "%(count)s tasks were skipped:", count)
    line = _("%(tasks)s: %(why)s")
    lines = (
        line % {"tasks": ", ".join(f"#{number}" for number in numbers), "why": why}
        for why, numbers in left.items()
    )
    return "\n".join([first % {"count": count}, *lines])


def _act_on_one(action: BulkAction, task: Task, by: User) -> None:
    """Apply an action to one task. Raises DomainError if it does not apply or is refused."""
    match action:
        case BulkAction.DELETE:
            delete_task(task, by=by)
        case BulkAction.RETRY:
            copy, is_new = repeat_task(task, owner=by)
            if not is_new:
                raise DomainError("repeated_just_now", status=409, task=copy.pk)
        case BulkAction.CANCEL | BulkAction.CANCEL_WAITING:
            if task.state == TaskState.FINISHED or not cancel_and_check(task, by=by):
                raise DomainError("run_over", status=409)
