"""What is done to several tasks at once, each by its own service: one refusal stops no other."""

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from profiles.comparison.comparison import FEWEST, MOST
from profiles.retention.deletion import delete_task
from profiles.selectors import profile_of
from tasks.lifecycle.cancel import MOST_IDS, CancelReport, cancel_and_check
from tasks.models import Task
from tasks.pagination import PAGE_SIZE
from tasks.selectors import listed_tasks
from tasks.states import Status, TaskState
from tasks.submission.copies import repeat_task
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int
from webprofile.messages.errors import word


class Act(enum.StrEnum):
    COMPARE = "compare"
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"
    CANCEL_WAITING = "cancel-waiting"

    @property
    def is_final(self) -> bool:
        """Whether the reader is asked first."""
        return self in {Act.DELETE, Act.CANCEL_WAITING}


@dataclass(frozen=True)
class Chosen:
    """Tasks, newest first, and numbers of none that exist for the reader."""

    tasks: list[Task]
    unknown: list[int]


@dataclass(frozen=True)
class Acted:
    """How many tasks it was done to, and the numbers of the others by why it was not."""

    done: int
    left: dict[str, list[int]]


def chosen_tasks(reader: User, act: Act, numbers: Sequence[str]) -> Chosen:
    """What was ticked, at most a page of it; of an odd number nothing is said.

    Of those that wait, which nobody ticks, as many as one request may cancel.
    """
    tasks = listed_tasks(reader)
    if act is Act.CANCEL_WAITING:
        waiting = [TaskState.INITIATED, TaskState.WAITING, TaskState.ASSIGNED]
        own = tasks.filter(owner=reader, state__in=waiting).order_by("-pk")
        return Chosen(list(own[:MOST_IDS]), [])
    read = {parse_int(text, maximum=LARGEST_KEY) for text in numbers}
    asked = sorted((key for key in read if key is not None), reverse=True)[:PAGE_SIZE]
    found = list(tasks.filter(pk__in=asked).order_by("-pk"))
    there = {task.pk for task in found}
    return Chosen(found, [number for number in asked if number not in there])


def compare_address(chosen: Chosen) -> str:
    """The page that compares the results of tasks, the oldest as the baseline.

    Tasks without a result are left out; empty if fewer remain than can be compared, or more.
    """
    done = [task for task in chosen.tasks if task.status == Status.SUCCEEDED]
    if len(done) > MOST:
        return ""
    profiles = [profile_of(task) for task in reversed(done)]
    numbers = [profile.pk for profile in profiles if profile is not None]
    if not FEWEST <= len(numbers) <= MOST:
        return ""
    return f"{reverse('profiles:compare')}?{urlencode([('p', number) for number in numbers])}"


def act_on(act: Act, chosen: Chosen, *, by: User) -> Acted:
    """Do it, one after the other."""
    done, left = 0, defaultdict[str, list[int]](list)
    # repeated in the order in which they were asked for; cancelled from the end of the queue, or
    # the first ones would make room for others that are to be cancelled too
    for task in reversed(chosen.tasks) if act is Act.RETRY else chosen.tasks:
        try:
            _act_on_one(act, task, by)
            done += 1
        except DomainError as error:
            left[word(error)].append(task.pk)
    if chosen.unknown:
        left[word(DomainError("task_unknown"))] += chosen.unknown
    return Acted(done, dict(left))


def tell(request: HttpRequest, act: Act, acted: Acted) -> None:
    """Leave what became of it for the next page."""
    texts = {
        Act.CANCEL: ngettext("%(count)s task cancelled.", "%(count)s tasks cancelled.", acted.done),
        Act.RETRY: ngettext(
            "%(count)s task asked for once more.",
            "%(count)s tasks asked for once more.",
            acted.done,
        ),
        Act.DELETE: ngettext("%(count)s task deleted.", "%(count)s tasks deleted.", acted.done),
    }
    texts[Act.CANCEL_WAITING] = texts[Act.CANCEL]
    if acted.done:
        messages.success(request, texts[act] % {"count": acted.done})
    elif not acted.left:
        messages.info(request, _("Nothing to do: tick tasks that this can be done to."))
    if acted.left:
        messages.warning(request, left_words(acted.left))


def cancel_words(report: CancelReport) -> str:
    """What became of tasks that were to be cancelled."""
    number = len(report.cancelled)
    text = ngettext("%(n)s task was cancelled.", "%(n)s tasks were cancelled.", number)
    codes = {"run_over": report.ended, "task_unknown": report.unknown}
    left = {word(DomainError(code)): pks for code, pks in codes.items() if pks}
    return "\n".join([text % {"n": number}, *([left_words(left)] if left else [])])


def left_words(left: Mapping[str, Sequence[int]]) -> str:
    """Which tasks nothing was done to, by why: a line for each reason."""
    count = sum(map(len, left.values()))
    first = ngettext("%(count)s task was left out:", "%(count)s tasks were left out:", count)
    line = _("%(tasks)s: %(why)s")
    lines = (
        line % {"tasks": ", ".join(f"#{number}" for number in numbers), "why": why}
        for why, numbers in left.items()
    )
    return "\n".join([first % {"count": count}, *lines])


def _act_on_one(act: Act, task: Task, by: User) -> None:
    """Raises DomainError if there was nothing to be done, or it cannot be."""
    match act:
        case Act.DELETE:
            delete_task(task, by=by)
        case Act.RETRY:
            copy, is_new = repeat_task(task, owner=by)
            if not is_new:
                raise DomainError("repeated_just_now", status=409, task=copy.pk)
        case Act.CANCEL | Act.CANCEL_WAITING:
            if task.state == TaskState.FINISHED or not cancel_and_check(task):
                raise DomainError("run_over", status=409)
