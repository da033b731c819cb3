"""Compare the values of all variables of two tasks."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from accounts.selectors import current_user
from profiles.comparison.dumps import dumps_compare
from profiles.comparison.request import page_problem
from profiles.selectors import get_dump, tasks_with_dumps
from profiles.views.common import task_or_404
from webprofile.integers import LARGEST_KEY, parse_int

COMPARE_ROWS = 200


@login_required
@require_GET
def compare_choose(request: HttpRequest, task_id: int) -> HttpResponse:
    """Redirect `?other=N`, sent by the form of a task's page, to the comparison."""
    task = task_or_404(request, task_id)
    number = parse_int(request.GET.get("other", ""), maximum=LARGEST_KEY)
    if number is None:
        raise Http404
    return redirect("tasks:compare-io", task.pk, task_or_404(request, number).pk)


@login_required
@require_GET
def compare_io(request: HttpRequest, task_id: int, other_id: int) -> HttpResponse:
    """Show the values of all variables of two tasks side by side, in order of execution."""
    task, other = task_or_404(request, task_id), task_or_404(request, other_id)
    comparison = dumps_compare(get_dump(task), get_dump(other))
    only = "differing" in request.GET
    rows = [row for row in comparison.rows if row["status"] != "equal" or not only]
    first = next((n for n, row in enumerate(rows) if row["is_first"]), None)
    page_text = request.GET.get("page", "")
    page = Paginator(rows, COMPARE_ROWS).get_page(page_text)
    context = {
        "task": task,
        "other": other,
        # the first difference may be beyond the stored rows
        "first_page": None if first is None else first // COMPARE_ROWS + 1,
        "others": tasks_with_dumps(task, current_user(request)),
        "comparison": comparison,
        "only_differing": only,
        "page": page,
        "page_problem": page_problem(page, page_text),
    }
    return render(request, "profiles/compare_io.html", context)
