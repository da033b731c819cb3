"""Tests of `webprofile ab` and of the paired run of `compare --gate verdict --confirm`."""

import hashlib
import re
import signal

import pytest

from agent.protocol.pairs import ArmVerdict
from profiles.tests.make import (
    FASTER,
    SAME,
    SLOWER,
    UNDECIDED,
    finish_in_pairs,
    make_paired_task,
    operator_files,
)
from tasks.models import Task, TaskFile
from tasks.tests.make import make_task, model_bytes, npy_bytes
from webprofile.storage import storage as object_store
from workers.models import Worker

AB = ("ab", "net.mge", "other.mge", "-w", "x86-1")


@pytest.fixture
def end_pairs(proxy):
    """Function that ends the next paired comparison with verdicts, when the client waits for it."""

    def end(*verdicts: ArmVerdict, cosine: float = 1.0) -> None:
        def plan(method: str, path: str) -> str:
            if method == "GET" and path.startswith("/api/v1/tasks/"):
                tasks = Task.objects.filter(pairing__isnull=False, state="waiting")
                if task := tasks.first():
                    finish_in_pairs(task, *verdicts, cosine=cosine)
            return ""

        proxy.plan = plan

    return end


def store_files(task: Task) -> None:
    """Store a file of its kind for each file of a task."""
    for file in task.files.all():
        content = model_bytes(str(task.pk).encode()) if file.kind == "model" else npy_bytes()
        object_store.write(file.object_key, content)
        md5 = hashlib.md5(content).hexdigest()
        TaskFile.objects.filter(pk=file.pk).update(size_bytes=len(content), md5=md5)


def test_two_models_become_one_task_with_two_arms(client):
    output = client.run(*AB, "-d", "data=cat.npy", "--no-wait", "--title", "release").stdout
    task = Task.objects.get()
    assert output.split() == [str(task.pk)]
    assert (task.title, task.worker.name, task.state) == ("release", "x86-1", "waiting")
    assert task.pairing == {
        "margin": 0.01,
        "budget_s": 60,
        "least_cosine": 0.999,
        "arms": [{"runtime_version": "1.13.0", "options": None, "inputs": None}],
    }
    assert [(file.arm, file.name) for file in task.files.all()] == [
        (0, "net.mge"), (0, "cat.npy"), (1, "other.mge")
    ]  # fmt: skip
    content = object_store.read(task.files.get(arm=1).object_key, limit_bytes=99)
    assert content.endswith(b"other")


def test_one_model_is_uploaded_once_and_compared_with_itself(client, proxy):
    Worker.objects.get().runtimes.create(version="1.13.1", kind="wheel")
    client.run(
        "ab", "net.mge", "net.mge", "net.mge", "-w", "x86-1", "--no-wait",
        "-o", "record_comp_seq=true", "--arm-option", "B:fast_run", "--arm-option",
        "c:warmup_iter=3", "-V", "1.13.0", "-V", "1.13.0", "-V", "1.13.1", "--margin", "2.5%",
        "--budget", "90s", "--cosine", "0.99",
    )  # fmt: skip
    (body,) = proxy.posted_tasks
    assert len(body["files"]) == 1
    task = Task.objects.get()
    assert task.runtime_version == "1.13.0"
    pairing = task.pairing
    assert (pairing["margin"], pairing["budget_s"], pairing["least_cosine"]) == (0.025, 90, 0.99)
    assert [(arm["runtime_version"], arm["options"]) for arm in pairing["arms"]] == [
        ("1.13.0", {"record_comp_seq": True, "fast_run": True}),
        ("1.13.1", {"record_comp_seq": True, "warmup_iter": 3}),
    ]


def test_an_arm_can_have_its_own_data(client, home):
    (home / "dog.npy").write_bytes(npy_bytes((2, 3)))
    client.run(*AB, "-d", "data=cat.npy", "--arm-data", "B:data=dog.npy", "--no-wait")
    assert [(file.arm, file.name, file.input) for file in TaskFile.objects.filter(kind="data")] == [
        (0, "cat.npy", "data"), (1, "dog.npy", "data")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "code", "words"),
    [
        ([FASTER], 0, "FASTER: B is 10.0 % faster than A (95 % interval"),
        ([SAME], 0, "SAME: B is as fast as A, within ±1.00 %"),
        ([SLOWER], 1, "SLOWER: B is 10.0 % slower than A"),
        ([UNDECIDED], 5, "A verdict probably needs about 40 s more."),
    ],
)
def test_the_exit_code_is_the_verdict(client, end_pairs, verdicts, code, words):
    end_pairs(*verdicts)
    result = client.run(*AB, code=code)
    assert words in result.stdout
    assert "1 of 2 pairs count; measuring took 12.5 s" in result.stdout
    assert f"#{Task.objects.get().pk} succeeded" in result.stderr


@pytest.mark.parametrize("value", ["nan", "inf", "much"])
def test_a_similarity_that_is_not_a_number_is_refused(client, value):
    assert "is not a number" in client.run(*AB, "--cosine", value, code=2).stderr
    assert not Task.objects.exists()


def test_operators_that_do_not_explain_the_verdict_are_not_denied(client, alice):
    base = {"1": 2000.0, "2": 4000.0, "3": 3990.0, "4": 2.0}
    files = operator_files(base, base | {"2": 3200.0})
    task = make_paired_task(SLOWER, owner=alice, operators=files)
    output = client.run("ab", task.pk, code=1).stdout
    assert "B: the operators that differ do not explain the verdict" in output
    assert "no operator differs" not in output


def test_different_outputs_are_told_before_the_verdict(client, end_pairs):
    end_pairs(FASTER, cosine=0.5)
    output = client.run(*AB, code=1).stdout
    different, faster = output.index("DIFFERENT OUTPUTS: those of B"), output.index("FASTER: B")
    assert different < output.index("out: cosine similarity 0.500000") < faster


def test_the_operators_that_made_an_arm_slower_are_printed(client, alice):
    base = {"1": 2000.0, "2": 4000.0, "3": 3990.0, "4": 2.0}
    files = operator_files(base, base | {"2": 4800.0})
    task = make_paired_task(SLOWER, owner=alice, operators=files)
    output = client.run("ab", task.pk, code=1).stdout
    share = client.json("ab", task.pk, code=1)["pairs"]["operators"][0]["share"]
    assert f"operators of B that differ, explaining {100 * share:.0f} %:" in output
    assert re.search(r"^  \+\d{3}\.\d us \(\+\d+\.\d %\)  op2  Elemwise$", output, re.MULTILINE)
    assert "op1" not in output


def test_a_slower_arm_decides_before_an_undecided_one(client, alice):
    task = make_paired_task(UNDECIDED, SLOWER, owner=alice)
    details = client.json("ab", task.pk, code=1)
    assert (details["result"], details["task"]["id"]) == ("failed", task.pk)
    assert [verdict["verdict"] for verdict in details["pairs"]["verdicts"]] == [
        "not_enough", "slower"
    ]  # fmt: skip
    assert "SLOWER: C is 10.0 % slower than A" in client.run("show", task.pk).stdout


def test_an_interrupted_comparison_can_be_waited_for(client, proxy):
    process = client.start(*AB)
    client.wait(process, lambda: proxy.count("/submit/") > 0)
    task = Task.objects.get()
    client.wait(process, lambda: proxy.count(f"/tasks/{task.pk}/") > 0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"1 task has not ended. To wait again: webprofile ab {task.pk}\n" in err
    client.run("ab", task.pk, "--timeout", "0.1", code=4)
    finish_in_pairs(Task.objects.get(pk=task.pk), SAME)
    assert "SAME" in client.run("ab", task.pk).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ab", "net.mge", "-w", "x86-1"], "Give two to four models, or the number"),
        (["ab", "net.mge", "other.mge"], "--worker: missing"),
        (["ab", *["net.mge"] * 5, "-w", "x86-1"], "a paired comparison needs 2 to 4 models"),
        ([*AB, "--arm-option", "C:fast_run"], "arm “C” is not allowed; the arms are A, B"),
        ([*AB, "--arm-option", "fast_run"], "is not ARM:NAME=VALUE"),
        ([*AB, "--arm-data", "A:data=cat.npy"], "B; `data` is that of A"),
        ([*AB, *["-V", "1.13.0"] * 3], "versions: give one for all arms, or one for each"),
        ([*AB, "-V", "1.13.0", "-V", "1.0.0"], "1.0.0"),
        ([*AB, "-o", "iter=10"], "iter"),
        ([*AB, "--budget", "1"], "must be between 5 and 1800"),
        ([*AB, "--margin", "much"], "“much” is not a percentage"),
        (["ab", "net.mge", "none.mge", "-w", "x86-1"], "none.mge"),
        (["ab", "net.mge", "other.mge", "-w", "lost"], "device “lost” does not exist"),
        (["ab", "999"], "Task 999 does not exist"),
    ],
)
def test_mistakes_are_reported_before_a_task_is_created(client, arguments, message):
    assert message in client.run(*arguments, code=2).stderr
    assert not Task.objects.exists()


def test_other_tasks_are_no_paired_comparisons(client, alice):
    stderr = client.run("ab", make_task(alice).pk, code=2).stderr
    assert "is not a paired comparison" in stderr


def test_a_failed_comparison_exits_with_1(client, alice, proxy):
    task = make_paired_task(SAME, owner=alice)
    Task.objects.filter(pk=task.pk).update(outcome="failed", reason="timed_out")
    assert "failed" in client.run("ab", task.pk, code=1).stderr


def test_gate_on_verdicts_ignores_how_much_slower_a_task_is(client, make_steady):
    before, after = make_steady(0.25), make_steady(0.30)
    output = client.run("compare", before, after, "--gate", "verdict", code=1).stdout
    assert "--gate verdict: median latency (profiler off)" in output
    assert f"#{after} 300 ms: failed; slower" in output
    assert "; not measured in pairs\n" in output
    client.run("compare", after, before, "--gate", "verdict")
    near = make_steady(0.2535)
    client.run("compare", before, near, "--gate", "verdict", code=5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("verdict", "code"), [(SAME, 0), (SLOWER, 1), (UNDECIDED, 5)])
def test_confirm_measures_in_pairs_what_the_gate_cannot_decide(
    client, make_steady, end_pairs, verdict, code
):
    before, near = make_steady(0.25), make_steady(0.2535)
    for number in (before, near):
        store_files(Task.objects.get(pk=number))
    end_pairs(verdict)
    gate = ("compare", before, near, "--gate", "verdict", "--confirm")
    details = client.json(*gate, code=code)
    paired = Task.objects.get(pairing__isnull=False)
    assert (details["gate"]["paired_task"], paired.worker.name) == (
        paired.pk, Task.objects.get(pk=before).worker.name
    )  # fmt: skip
    (other,) = details["gate"]["others"]
    assert (other["paired"]["verdict"], other["verdict"]) == (verdict.verdict, "none")
    output = client.run(*gate, code=code)
    assert "measured in pairs by #" in output.stdout
    assert "Not enough evidence; task" in output.stderr


def test_confirm_measures_nothing_if_the_verdict_is_clear(client, make_steady):
    before, after = make_steady(0.25), make_steady(0.30)
    client.run("compare", before, after, "--gate", "verdict", "--confirm", code=1)
    assert not Task.objects.filter(pairing__isnull=False).exists()


def test_confirm_belongs_to_a_gate_on_verdicts(client):
    arguments = ("compare", 1, 2, "--confirm", "--fail-above", "5")
    assert "--confirm needs --gate verdict" in client.run(*arguments, code=2).stderr
