"""What is done to several tasks at once, each by its own service: one refusal stops no other."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from profiles.removal import task_delete
from tasks import services
from tasks.api import task_repeat
from tasks.cancelling import MOST_IDS
from tasks.models import Task
from tasks.pages import PAGE_SIZE
from tasks.selectors import tasks_listed_for
from tasks.states import LIVE, TaskState
from webprofile.errors import DomainError
from webprofile.wording import word


class Act(enum.StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"
    CANCEL_WAITING = "cancel-waiting"

    @property
    def is_final(self) -> bool:
        """Whether the reader is asked first."""
        return self in {Act.DELETE, Act.CANCEL_WAITING}


@dataclass(frozen=True)
class Acted:
    """How many tasks it was done to, how many not, and why not the first of these."""

    done: int
    refused: int
    why: str


def chosen_tasks(reader: User, act: Act, numbers: Sequence[str]) -> list[Task]:
    """The tasks that were ticked and exist for the reader, newest first; at most a page of them.

    Of those that wait, which nobody ticks, as many as one request may cancel.
    """
    tasks = tasks_listed_for(reader)
    if act is Act.CANCEL_WAITING:
        waiting = [TaskState.INITIATED, TaskState.WAITING, TaskState.ASSIGNED]
        own = tasks.filter(owner=reader, state__in=waiting).order_by("-pk")
        return list(own[:MOST_IDS])
    keys = {int(text) for text in numbers if text.isascii() and text.isdigit() and len(text) < 19}
    return list(tasks.filter(pk__in=sorted(keys, reverse=True)[:PAGE_SIZE]).order_by("-pk"))


def act_on(act: Act, tasks: Sequence[Task], *, by: User) -> Acted:
    """Do it, one after the other."""
    done, refusals = 0, list[str]()
    # repeated in the order in which they were asked for; cancelled from the end of the queue, or
    # the first ones would make room for others that are to be cancelled too
    for task in reversed(tasks) if act is Act.RETRY else tasks:
        try:
            done += _act_on_one(act, task, by)
        except DomainError as error:
            refusals.append(f"#{task.pk}: {word(error)}")
    return Acted(done, len(refusals), refusals[0] if refusals else "")


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
    elif not acted.refused:
        messages.info(request, _("Nothing to do: tick tasks that this can be done to."))
    if acted.refused:
        refused = ngettext(
            "%(count)s task was left as it is: %(why)s",
            "%(count)s tasks were left as they are. The first: %(why)s",
            acted.refused,
        )
        messages.warning(request, refused % {"count": acted.refused, "why": acted.why})


def _act_on_one(act: Act, task: Task, by: User) -> bool:
    """Whether anything was done. Raises DomainError."""
    if act is Act.DELETE:
        task_delete(task, by=by)
        return True
    if act is Act.RETRY:
        return task_repeat(task, owner=by)[1]
    was_live = task.state in LIVE
    services.task_cancel(task)
    return was_live
