"""Pages of a task and of the form for a new task, and the actions of their buttons."""

import math
import shlex
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from rest_framework.exceptions import ValidationError

from accounts.models import User
from accounts.selectors import current_user
from agent.protocol.input_rules import ALL_DTYPES
from agent.protocol.options import OPTIONS
from agent.protocol.pairs import Pairing
from agent.protocol.plan import PRESETS
from profiles.earlier import earlier_of_task
from profiles.presenters.attempt_messages import input_words, rules_shown
from profiles.presenters.paired import verdict_views
from profiles.presenters.viewers import arm_of, model_times, task_model_view
from profiles.retention.deletion import keep_task_files
from profiles.selectors import (
    artifacts_of,
    dump_of,
    measurement_of,
    measurement_view,
    plan_title,
    tasks_with_dumps,
)
from tasks.api.left_views import redirect_to_file
from tasks.lifecycle.cancel import (
    cancel_own_tasks,
    cancel_task,
    end_early,
    refusal_of_early_end,
)
from tasks.lifecycle.reasons import wording_for
from tasks.models import OptionPreset, Task
from tasks.options import NEVER_TAKEN, all_groups, common_rows, form_groups, preset_rows
from tasks.run_steps import (
    awaits_operators,
    first_operators,
    latency_so_far,
    page_title,
    run_steps,
    usual_run,
)
from tasks.scheduling import rebinding
from tasks.scheduling.fair_share import ANY_PRIORITY, OWN_PRIORITY
from tasks.scheduling.messages import queue_rows, rough
from tasks.scheduling.queue_status import queue_facts
from tasks.selectors import (
    events_after,
    last_attempt,
    log_after,
    visible_tasks,
)
from tasks.states import TaskState
from tasks.submission.copies import (
    cache_choices,
    check_task,
    compare_tasks_in_pairs,
    repeat_task,
)
from tasks.submission.pairing import LABELS as PAIRING_LABELS
from tasks.submission.plans import LABELS as PLAN_LABELS
from tasks.submission.plans import longest_run_s, number_fields, plan_rows
from tasks.submission.presets import save_option_preset
from tasks.views.bulk_actions import cancel_words
from tasks.views.plain_form import create_from_form, options_of
from tasks.views.task_form import (
    arm_rows,
    file_words,
    form_data,
    outlook_of,
    read_priority,
    where_rows,
)
from webprofile.api.problems import flattened
from webprofile.client.batchfile.values import FORMATS
from webprofile.errors import DomainError
from webprofile.integers import parse_key
from webprofile.messages.errors import word
from webprofile.sentences import gap, sentences
from workers.models import Worker

PAGE_SIZE = 25
#: by how much the buttons on a waiting task's page change its priority
PRIORITY_STEP = 5


@csrf_exempt  # the CSRF check reads the body, so the length is checked first
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    return _create(request) if request.method == "POST" else _form(request)


@login_required
def _create(request: HttpRequest) -> HttpResponse:
    limit = settings.OPENED_FORM_LIMIT_BYTES
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
        raise DomainError("opened_form_large", status=413, limit_mib=limit // 2**20)
    return _create_from_form(request)


@csrf_protect
def _create_from_form(request: HttpRequest) -> HttpResponse:
    """Create a task without JavaScript; scripts use the API."""
    try:
        task = create_from_form(request.POST, request.FILES, current_user(request))
    except (DomainError, ValidationError) as error:
        if isinstance(error, DomainError):
            problems, status = [(error.field, word(error))], error.status
        else:
            problems = [(row["field"], row["detail"]) for row in flattened(error.detail)]
            status = 422
        texts = dict.fromkeys(_problem_text(*problem) for problem in problems)
        context = {"message": sentences([*texts, gettext("Go back to correct the form.")])}
        return render(request, "error.html", context, status=status)
    if earlier := earlier_of_task(task, list(task.files.all())):
        link = format_html(
            '<a href="{}">{}</a>',
            reverse("tasks:detail", args=[earlier.task]),
            gettext("Open that result."),
        )
        advice = gettext("If it is enough, cancel this task.")
        offered = [[text] for text in (earlier.text, earlier.drift, link, advice)]
        messages.info(request, format_html_join(gap(), "{}", offered))
    return redirect("tasks:detail", task.pk)


def _problem_text(field: str, text: str) -> str:
    """Return the text of a problem; texts about options do not name them."""
    option = field.rpartition(".")[2]
    return f"{option}: {text}" if option in OPTIONS else text


# browsers keep no page with `no-store` for "Back", with which the chosen files would be lost
@login_required
@cache_control(private=True, no_cache=True)
def _form(request: HttpRequest) -> HttpResponse:
    reader = current_user(request)
    origin_id = request.GET.get("from", "")
    origin = visible_tasks(reader).filter(pk=parse_key(origin_id)).first()
    context = {
        "origin": form_data(origin, request.GET.getlist("option")) if origin else None,
        "origin_arms": arm_rows(origin) if origin else [],
        "is_origin_gone": bool(origin_id) and origin is None,
        "kind": origin.kind if origin else request.GET.get("kind", ""),
        "script_times": _script_times(),
        "chosen": request.GET.get("worker", ""),
        "common": common_rows(),
        "presets": preset_rows(),
        "own_presets": list(reader.option_presets.values("id", "name", "options")),
        "groups": form_groups(cache_choices(reader)),
        "option_count": len(OPTIONS),
        "plans": plan_rows(),
        "plan_fields": number_fields(PRESETS["standard"], PLAN_LABELS),
        "pairing_fields": number_fields(Pairing(), PAIRING_LABELS),
        **where_rows(reader),
        "dtypes": ALL_DTYPES,
        "file_words": file_words(),
        "limits": {
            "model": settings.MODEL_SIZE_LIMIT_BYTES,
            "data": settings.DATA_SIZE_LIMIT_BYTES,
            "files": settings.DATA_FILES_LIMIT,
        },
    }
    return render(request, "tasks/new.html", context)


@login_required
@require_POST
def option_presets(request: HttpRequest) -> HttpResponse:
    """Save the options of the form as a preset, or `remove` one, without JavaScript."""
    user = current_user(request)
    if "remove" in request.POST:
        own = OptionPreset.objects.filter(owner=user)
        get_object_or_404(own, pk=parse_key(request.POST["remove"])).delete()
    else:
        name, options = request.POST.get("preset_name", ""), dict(options_of(request.POST))
        save_option_preset(user, name=name, options=options)
    return redirect("tasks:new")


def _script_times() -> dict[str, int]:
    """Return the limits of a script's run time: s for one format and for both, min for both."""
    both = longest_run_s(len(FORMATS))
    return {"most": longest_run_s(1), "both": both, "minutes": math.ceil(both / 60)}


@require_safe
def options(request: HttpRequest) -> HttpResponse:
    """Render the table of options; programs can read it at `/api/v1/options/`."""
    context = {
        "groups": all_groups(),
        "never": NEVER_TAKEN.items(),
        "count": len(OPTIONS),
    }
    return render(request, "tasks/options.html", context)


def detail(
    request: HttpRequest, task: Task, view: str = "", *, in_result: bool = False
) -> HttpResponse:
    """Render a view of a task that has no result; an empty `view` is the first one.

    in_result: render the fragment for the page of the task's result
    """
    views = ("files", "details", "graph") if task.has_stored_model else ("files", "details")
    chosen = view or views[0]
    if chosen not in views:
        return redirect("tasks:detail", task.pk)
    context = _detail_context(request, task) | {
        "has_log": log_after(task, 0).exists(),
        "view": chosen,
        "in_result": in_result,
    }
    if chosen == "graph":
        # reads the first bytes of the model
        arm = arm_of(request.GET)
        context |= {
            "page": reverse("tasks:detail", args=[task.pk]),
            "model": task_model_view(task, arm),
            "times": model_times(task, arm),
        }
    is_part = in_result or "part" in request.GET
    return render(
        request, f"tasks/views/{chosen}.html" if is_part else "tasks/detail.html", context
    )


@login_required
@require_safe
def status(request: HttpRequest, task_id: int) -> HttpResponse:
    """Render the changing parts of a task's page, which the page fetches after each event."""
    return render(request, "tasks/_parts.html", _detail_context(request, _task(request, task_id)))


@login_required
@require_POST
def rerun(request: HttpRequest, task_id: int) -> HttpResponse:
    """Submit a copy of a task: same device, version, options, plan, inputs, seed and files."""
    copy, is_new = repeat_task(_task(request, task_id), owner=current_user(request))
    if not is_new:
        text = _(
            "Task #%(id)s was already repeated a moment ago. This page shows the task that was "
            "created then; no second task was created."
        )
        messages.info(request, text % {"id": task_id})
    return redirect("tasks:detail", copy.pk)


@login_required
@require_POST
def check(request: HttpRequest, task_id: int) -> HttpResponse:
    """Measure the latency of the task again, in a few seconds."""
    return redirect(
        "tasks:detail", check_task(_task(request, task_id), owner=current_user(request)).pk
    )


@login_required
@require_POST
def compare_paired(request: HttpRequest, task_id: int) -> HttpResponse:
    """Compare the task with others (`other`: their ids) in pairs of processes on its device."""
    others = [_task(request, parse_key(text) or 0) for text in request.POST.getlist("other")]
    tasks = [_task(request, task_id), *others]
    return redirect("tasks:detail", compare_tasks_in_pairs(tasks, owner=current_user(request)).pk)


@login_required
@require_POST
def cancel(request: HttpRequest, task_id: int) -> HttpResponse:
    task = _task(request, task_id)
    cancel_task(task, by=current_user(request))
    return redirect("tasks:detail", task.pk)


@login_required
@require_POST
def enough(request: HttpRequest, task_id: int) -> HttpResponse:
    """End the run of a task early, and keep what was measured."""
    task = _task(request, task_id)
    end_early(task, by=current_user(request))
    return redirect("tasks:detail", task.pk)


@login_required
@require_POST
def cancel_all(request: HttpRequest) -> HttpResponse:
    """Cancel all of the user's own tasks, including those on a device."""
    messages.info(request, cancel_words(cancel_own_tasks(owner=current_user(request))))
    return redirect("tasks:list")


@login_required
@require_POST
def move(request: HttpRequest, task_id: int) -> HttpResponse:
    """Move a waiting task to another device (`worker`: its id)."""
    task = _task(request, task_id)
    worker = Worker.objects.filter(pk=parse_key(request.POST.get("worker", ""))).first()
    if worker is None:
        raise DomainError("worker_unknown", field="worker")
    rebinding.move_task(task, to=worker, by=current_user(request))
    return redirect("tasks:detail", task.pk)


@login_required
@require_POST
def prioritize(request: HttpRequest, task_id: int) -> HttpResponse:
    """Change the priority of a task (`priority`)."""
    task = _task(request, task_id)
    priority = read_priority(request.POST.get("priority", ""))
    rebinding.prioritize_task(task, priority=priority, by=current_user(request))
    return redirect("tasks:detail", task.pk)


@login_required
@require_POST
def keep_files(request: HttpRequest, task_id: int) -> HttpResponse:
    """Exempt the task's files from retention rules (`keep`: yes), or end the exemption."""
    task = _task(request, task_id)
    keep_task_files(task, keep=request.POST.get("keep") == "yes", by=current_user(request))
    # the page is long: scroll back to the button
    return redirect(f"{reverse('tasks:detail', args=[task.pk])}#retention")


@login_required
@require_safe
def outlook(request: HttpRequest) -> HttpResponse:
    """Render the part of the form about the queue that the task would enter."""
    return render(request, "tasks/_outlook.html", outlook_of(request.GET, current_user(request)))


@login_required
@require_safe
def file(request: HttpRequest, task_id: int, file_id: int) -> HttpResponse:
    """Redirect to a file of the task in storage."""
    return redirect_to_file(_task(request, task_id), file_id)


def _priority_steps(task: Task, reader: User) -> list[tuple[int, Any]]:
    """Return the priorities that the page offers for a task that has not started, with labels."""
    if task.state not in (TaskState.INITIATED, TaskState.WAITING):
        return []
    # a task that an administrator raised or lowered can return to the users' range
    low = max(-OWN_PRIORITY, min(task.priority - PRIORITY_STEP, OWN_PRIORITY))
    high = max(-OWN_PRIORITY, min(task.priority + PRIORITY_STEP, OWN_PRIORITY))
    steps = []
    if low < task.priority:
        steps.append((low, _("Lower priority")))
    if high > task.priority:
        steps.append((high, _("Raise priority")))
    if reader.is_staff and task.priority < ANY_PRIORITY:
        steps.append((ANY_PRIORITY, _("Before all users")))
    return steps


def _task(request: HttpRequest, task_id: int) -> Task:
    """Return the task if the user may see it. Raises Http404 otherwise."""
    return get_object_or_404(visible_tasks(current_user(request)), pk=task_id)


def _detail_context(request: HttpRequest, task: Task) -> dict[str, Any]:
    dump, attempt = dump_of(task), last_attempt(task)
    usual = usual_run(task) if task.is_live else None
    verdicts = attempt.verdicts if attempt and task.is_live else []
    return {
        "task": task,
        "arguments": shlex.join(task.script["arguments"]) if task.script else "",
        "attempt": attempt,
        "page_title": page_title(task, attempt),
        "steps": run_steps(task, attempt),
        "usual": usual,
        "usual_time": rough(usual.run_s) if usual else "",
        "may_end_early": refusal_of_early_end(task, attempt) is None,
        "latency": latency_so_far(task, attempt),
        "first_operators": first_operators(task, attempt),
        "awaits_operators": awaits_operators(task, attempt),
        "verdicts": verdict_views(verdicts, task),
        "are_verdicts_clear": all(row["verdict"] != "not_enough" for row in verdicts),
        "plan": plan_title(task),
        "inputs": input_words(task),
        "show_inputs": True,
        "measured": measurement_view(measurement_of(task)),
        "artifacts": artifacts_of(task),
        "retention": rules_shown(),
        "others": tasks_with_dumps(task, current_user(request)) if dump else None,
        "wording": wording_for(task),
        "events": list(events_after(task, 0)),
        "queue": queue_rows(queue_facts(task, reader=current_user(request))),
        "priority": _priority_steps(task, current_user(request)),
    }
