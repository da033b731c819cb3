"""Tests of `manage.py ab`: the task that it makes, its output and its exit codes."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from profiles.tests.make import SAME, SLOWER, UNDECIDED, finish_in_pairs, operator_files
from tasks.management.commands import submit as submit_command
from tasks.models import Task
from tasks.tests.make import MODEL, make_user, make_worker, model_bytes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]
AB = ("ab", "net.mge", "other.mge", "-w", "x86-1", "--as", "alice@example.com")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.mge").write_bytes(MODEL)
    (tmp_path / "other.mge").write_bytes(model_bytes(b"other"))
    make_worker("x86-1")
    make_user("alice")


def run(*arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code and output."""
    out = io.StringIO()
    try:
        call_command(*AB, *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, out.getvalue()
    return 0, out.getvalue()


@pytest.mark.parametrize(
    ("verdict", "cosine", "code", "words"),
    [
        (SAME, 1.0, 0, "B equally fast: B is as fast as A"),
        (SLOWER, 1.0, 1, "B slower: B is 10.0 % slower than A"),
        (UNDECIDED, 1.0, 5, "A verdict probably needs about 40 s more."),
        (SAME, 0.5, 1, "DIFFERENT OUTPUTS: those of B differ"),
    ],
)
def test_the_exit_code_is_the_verdict(monkeypatch, verdict, cosine, code, words):
    def end(seconds: float) -> None:
        finish_in_pairs(Task.objects.get(), verdict, cosine=cosine)

    monkeypatch.setattr(submit_command.time, "sleep", end)
    exit_code, output = run()
    assert exit_code == code
    assert words in output


def test_operators_that_made_an_arm_slower_are_printed(monkeypatch):
    base = {"1": 2000.0, "2": 4000.0, "3": 3990.0, "4": 2.0}
    files = operator_files(base, base | {"2": 4800.0})

    def end(seconds: float) -> None:
        finish_in_pairs(Task.objects.get(), SLOWER, operators=files)

    monkeypatch.setattr(submit_command.time, "sleep", end)
    _, output = run()
    assert "What made B slower: This operator explains" in output
    assert output.splitlines()[-1].endswith(" op2 Elemwise")


def test_the_task_has_an_arm_for_each_model():
    code, output = run("--arm-option", "B:fast_run", "--margin", "2%", "--no-wait", "--json")
    task = Task.objects.get()
    assert (code, json.loads(output)) == (0, {"task": task.pk})
    assert (task.pairing["margin"], task.pairing["arms"][0]["options"]) == (
        0.02, {"fast_run": True}
    )  # fmt: skip
    assert [(file.arm, file.name) for file in task.files.all()] == [
        (0, "net.mge"), (1, "other.mge")
    ]  # fmt: skip


def test_mistakes_and_the_timeout_have_their_own_exit_codes():
    assert run("-o", "iter=3")[0] == 2
    assert not Task.objects.exists()
    assert run("--timeout", "0")[0] == 4
