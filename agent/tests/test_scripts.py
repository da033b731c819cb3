"""Users' programs on a device whose owner allows them: their environment and their results."""

import importlib
import json
import sys

import pytest

from agent.execution import process_pool
from agent.execution.sandbox import Sandbox
from agent.inventory import LocalRuntime
from agent.load_and_run import imports
from agent.protocol.messages import (
    AttemptLog,
    AttemptStarted,
    Cancel,
    EndReason,
    Hello,
    RuntimeInfo,
    Script,
)
from agent.protocol.notes import Note
from agent.script_runner import _web_profile_imports
from agent.tests.fakes import explanation, wait_until
from agent.tests.script_device import STEP, TIMEOUT_S, ScriptDevice, allow_scripts

pytestmark = pytest.mark.megengine


async def test_a_training_step_yields_a_trace_and_its_output(script_device, server):
    end = await script_device.run(STEP, arguments=("--epochs", "1", "a b", ""))
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
    assert {"chrome_timeline.json", "log.txt", "manifest.json", "measurement.json"} == {
        file.name for file in end.files
    }
    names = {event["name"] for event in script_device.trace()}
    assert any("Conv" in name for name in names)
    text = server.log_text()
    assert "arguments ['script.py', '--epochs', '1', 'a b', ''] loss is finite True" in text
    started = server.messages(AttemptStarted)[0]
    assert "--format=chrome_timeline.json" in started.command
    assert "script.py --epochs 1 'a b' ''" in started.command
    assert "bwrap" not in started.command

    manifest = json.loads(server.storage.stored["manifest.json"])
    assert manifest["script"]["arguments"] == ["--epochs", "1", "a b", ""]
    assert manifest["sandbox"] == "bubblewrap, closed"
    assert manifest["runtime"]["version"] == "1.13.0"
    (record,) = json.loads(server.storage.stored["measurement.json"])["passes"]
    assert (record["kind"], record["profile"]) == ("script", "chrome_timeline.json")


@pytest.mark.exhaustive
async def test_each_format_has_its_own_run_in_a_new_folder(script_device, server):
    program = STEP + "import os; print('before', os.path.exists('left'))\nopen('left', 'w')\n"
    both = ("chrome_timeline.json", "memory_flow.svg")
    end = await script_device.run(program, formats=both, sample_rate=1)
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
    assert script_device.trace()
    assert b"</svg>" in server.storage.stored["memory_flow.svg"]
    text = server.log_text()
    assert "==== run 1 of 2 (chrome_timeline.json): script.py\n" in text
    assert "==== run 2 of 2 (memory_flow.svg): script.py\n" in text
    assert text.count("before False") == 2
    one, other = end.command.splitlines()
    assert ("--format=chrome_timeline.json" in one, "--format=memory_flow.svg" in other) == (
        True,
        True,
    )
    assert [phase.name for phase in end.phases].count("pass script") == 2


async def test_a_zip_runs_like_an_unpacked_program(script_device, server):
    files = {
        "train/step.py": "from parts.net import run\nimport sys, os, megengine\n"
        "print('called', __name__, sys.argv, os.path.basename(sys.path[0]), os.listdir('.'))\n"
        "print('file', os.path.relpath(__file__), 'main', sys.modules['__main__'].__dict__ is "
        "globals())\nprint(run(open('data/words.txt').read()), len(open('data.npy', 'rb').read()))",
        "train/parts/__init__.py": "",
        "train/parts/net.py": "def run(words): return 'net ' + words",
        "data/words.txt": "of words",
        "other.py": "",
    }
    end = await script_device.run(
        files, entry="train/step.py", arguments=("x",), data=("data.npy",)
    )
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    text = server.log_text()
    assert "called __main__ ['train/step.py', 'x'] train " in text
    assert "file train/step.py main True" in text
    assert "net of words 140" in text


async def test_packages_that_megengine_imports_can_be_used(script_device, server):
    """They are imported when a program uses them, because that takes 0.3 s."""
    program = """\
        import os, sys
        from megengine.utils.http_download import smart_getsize
        print("imported", "megfile" in sys.modules)
        print("size", smart_getsize(__file__) == os.path.getsize(__file__))
        import megfile, pkg_resources
        print("packages", "megfile" in pkg_resources.working_set.by_key, megfile.__name__)
    """
    end = await script_device.run(program)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    printed = set(server.log_text().splitlines())
    assert {"imported False", "size True", "packages True megfile"} <= printed


def call_in_load_and_run(function, argument) -> None:
    with imports.without_unused():
        function(argument)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (_web_profile_imports, _web_profile_imports.call_without_unused),
        (imports, call_in_load_and_run),
    ],
    ids=["scripts", "load_and_run"],
)
def test_a_package_that_is_needed_while_megengine_is_imported_is_the_real_one(
    tmp_path, monkeypatch, module, call
):
    (tmp_path / "needed_package.py").write_text("class Missing(Exception): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_UNUSED", ("needed_package",))
    monkeypatch.delitem(sys.modules, "needed_package", raising=False)

    def import_megengine(seen: list[str]) -> None:
        package = importlib.import_module("needed_package")
        assert package.working_set == ()
        seen += [base.__name__ for base in package.Missing.__mro__]

    seen: list[str] = []
    call(import_megengine, seen)
    assert seen[:2] == ["Missing", "Exception"]
    assert sys.modules["needed_package"].Missing.__name__ == "Missing"


async def test_a_failed_program_reports_its_error_and_leaves_its_trace(script_device, server):
    end = await script_device.run(
        STEP + "def broken():\n    raise ValueError('no batch')\nbroken()\n"
    )
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 1)
    assert end.detail == "ValueError: no batch"
    assert script_device.trace()
    text = server.log_text()
    assert "in broken" in text
    assert "script_runner" not in text.split("Traceback")[1]


async def test_a_failure_with_long_arguments_and_many_files_is_reported(script_device, server):
    program = "import sys\nprint('\\x01' * 4000)\nsys.exit(1)"
    names = tuple(f"{'a' * 96}.{number}" for number in range(64))
    server.storage.files |= dict.fromkeys(names, b"x")
    end = await script_device.run(program, data=names, arguments=("🙂" * 1000,) * 64)
    assert len(end.received) == 65
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 1)
    assert "script.py" in end.command
    assert end.log_end.endswith("\x01\n")
    assert "🙂" in server.messages(AttemptStarted)[0].command
    await script_device.device.wait_until_forgotten()


async def test_the_exit_code_of_the_program_is_reported(script_device):
    for code, left in (("0", 0), ("7", 7), ("'words'", 1)):
        end = await script_device.run(STEP + f"sys.exit({code})")
        assert (end.reason, end.exit_code) == (EndReason.EXITED, left)
        assert script_device.trace()


async def test_a_program_that_skips_exit_handlers_has_no_trace(script_device):
    for ending in ("import os; os._exit(0)", "import os; os.execv('/bin/true', ['true'])"):
        end = await script_device.run(STEP + ending)
        assert end.reason is EndReason.NO_PROFILE, ending
        assert "os._exit" in explanation(end)
    end = await script_device.run("print('does not import megengine')")
    assert (end.reason, end.exit_code) == (EndReason.NO_PROFILE, 0)
    assert "did not import megengine" in explanation(end)


async def test_the_trace_of_a_profiler_of_the_program_is_kept(script_device, server):
    for place in ("mine", "/tmp/mine", "/dev/shm", "../traces"):
        program = STEP + (
            "from megengine.utils.profiler import Profiler\n"
            "x = mge.tensor(np.ones((4, 4), 'float32'))\n"
            f"with Profiler({place!r}, formats=['chrome_timeline.json', 'memory_flow.svg']):\n"
            "    F.matmul(x, x).numpy()\n"
        )
        end = await script_device.run(program)
        assert (end.reason, end.exit_code) == (EndReason.EXITED, 0), place
        names = {event["name"] for event in script_device.trace()}
        assert any("MatrixMul" in name for name in names)
        assert not any("Conv" in name for name in names)
        assert "the program uses its own Profiler" in server.log_text()


@pytest.mark.exhaustive
async def test_threads_processes_and_a_closed_output_are_supported(script_device, server):
    program = STEP + (
        "import multiprocessing, threading, os\n"
        "def work(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        print('squares', pool.map(work, [1, 2, 3]), flush=True)\n"
        "    thread = threading.Timer(0.3, lambda: open('later', 'w'))\n"
        "    thread.start()\n"
        "    sys.stdout.close()\n"
        "    os.close(2)\n"
    )
    end = await script_device.run("if __name__ != '__main__': pass\n" + program)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert "squares [1, 4, 9]" in server.log_text()
    assert script_device.trace()


async def test_megengine_can_be_imported_in_any_thread(script_device):
    # MegEngine computes in the thread alone that imported it
    body = "\n".join(f"    {line}" for line in STEP.splitlines())
    program = f"import threading\ndef work():\n{body}\nt = threading.Thread(target=work)\n"
    end = await script_device.run(program + "t.start(); t.join()\n")
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert any("Conv" in event["name"] for event in script_device.trace())


async def test_output_is_sent_during_the_run_and_kept_after_cancel(script_device, server):
    order = script_device.make_order(
        "import time\nprint('step 1')\nprint('step 2')\ntime.sleep(60)"
    )
    await server.send(order)
    assert "step 1" in (await server.expect(AttemptLog)).text
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert end.reason is EndReason.CANCELLED
    assert "".join(piece.text for piece in server.messages(AttemptLog)) == "step 1\nstep 2\n"


async def test_stdout_and_stderr_keep_their_order(script_device, server):
    program = """\
        import sys
        print("one")
        print("two", file=sys.stderr)
        print("three")
        class Odd(Exception): pass
        raise Odd("no batch\\n\\nof this size\\nbacktrace:\\n" + "0x1234\\n" * 9000 + "0x5678")
    """
    end = await script_device.run(program)
    text = server.log_text()
    assert [line for line in text.splitlines() if line in ("one", "two", "three")] == [
        "one",
        "two",
        "three",
    ]
    assert text.index("three") < text.index("Traceback")
    assert text.endswith("0x5678\n")
    # the log's end no longer holds the line
    assert (end.exit_code, end.detail) == (1, "Odd: no batch; of this size")


@pytest.mark.exhaustive
async def test_a_script_that_times_out_leaves_its_trace(script_device, server):
    endless = (
        STEP + "import time\nwhile True:\n    F.relu(mge.tensor([1.0])).numpy(); time.sleep(.1)"
    )
    order = script_device.make_order(endless, timeout_s=15).model_copy(update={"grace_s": 10})
    await server.send(order)
    end = await server.wait_for_end(order, TIMEOUT_S)
    assert (end.reason, end.exit_code) == (EndReason.TIMED_OUT, 143)
    assert explanation(end) == "Stopped after 15 s."
    assert any("Conv" in event["name"] for event in script_device.trace())
    assert "Traceback" not in server.log_text()


async def test_a_device_that_does_not_allow_scripts_refuses_them(device, server):
    device.start()
    hello = await server.expect(Hello)
    assert "scripts" not in hello.features
    script_device = ScriptDevice(device, server)
    end = await script_device.run("print('hello')")
    assert end.reason is EndReason.REFUSED
    assert end.notes == (Note.of("scripts_forbidden"),)
    assert server.storage.requests == []


async def test_scripts_do_not_run_without_a_sandbox(device, server, megengine_python):
    allow_scripts(device, megengine_python)
    device.sandbox = Sandbox(problem=Note.of("bwrap_missing"))
    device.start()
    hello = await server.expect(Hello)
    assert "scripts" not in hello.features
    end = await ScriptDevice(device, server).run("print('hello')")
    assert (end.reason, end.notes) == (EndReason.NO_SANDBOX, (Note.of("bwrap_missing"),))


async def test_a_compiled_load_and_run_has_no_python_for_scripts(device, server, megengine_python):
    allow_scripts(device, megengine_python)
    info = RuntimeInfo(version="1.13.0", kind="binary")
    device.runtimes = {"1.13.0": LocalRuntime(info, ("/bin/true",), path="/bin/true")}
    device.start()
    assert "scripts" not in (await server.expect(Hello)).features
    end = await ScriptDevice(device, server).run("print('hello')")
    assert end.reason is EndReason.REFUSED
    assert end.notes == (Note.of("script_runtime", version="1.13.0"),)


async def test_a_script_does_not_run_in_a_pre_started_process(
    device, server, megengine_python, monkeypatch
):
    monkeypatch.setattr(process_pool, "REST_S", 0.1)
    allow_scripts(device, megengine_python)
    device.changes["warm"] = True
    device.start()
    waiting = device.spool / "warm"
    await wait_until(lambda: waiting.exists() and any(waiting.iterdir()))
    program = STEP + "import os\nprint('sees users', os.path.exists('/etc/passwd'))\n"
    end = await ScriptDevice(device, server).run(program)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert "sees users False" in server.log_text()


async def test_a_zip_that_cannot_be_run_is_explained(script_device, server):
    for files, script, words in (
        ({"a.py": "", "b/c.py": ""}, {}, "Name the one to run: a.py, b/c.py"),
        ({"a.py": ""}, {"entry": "main.py"}, "does not contain main.py. Its programs: a.py"),
        ({"notes.txt": ""}, {}, "contains no Python file"),
        ({"a.py": "", "data.npy": ""}, {"data": ("data.npy",)}, "Rename one of them"),
    ):
        end = await script_device.run(files, **script)
        assert end.reason is EndReason.INPUT_WRONG
        assert words in explanation(end)
    server.storage.files["script.zip"] = b"PK\x03\x04 no zip"
    end = await server.run(model=server.storage.input_file("script.zip"), script=Script())
    assert end.reason is EndReason.INPUT_WRONG
    assert "cannot be unpacked" in explanation(end)
