"""Run load_and_run in the runtime's interpreter."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testdata import DATA

FOLDER = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300  # for busy machines


#: what a fork server imports: megenginelite, or MegEngine for its graph API
LITE = """
from load_and_run.library import import_library
import_library()
from megenginelite import tensor
"""
GRAPH = """
from load_and_run.graph_library import Library
Library({})
"""


class ForkServer:
    """An interpreter that has imported a library of MegEngine and forks for each run.

    The import takes ten times as long as the run of a small model. Runs do not influence each
    other, because the parent process loads no model.
    """

    def __init__(self, python: str, imports: str = LITE, **variables: str) -> None:
        self._process = subprocess.Popen(
            [*_limited(python), "-c", _FORK_SERVER, str(FOLDER), str(TIMEOUT_S), imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment() | variables,
        )

    def run(
        self, arguments: Sequence[str], folder: Path, code: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run load_and_run, or a script that may import it, in a folder."""
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.TemporaryDirectory() as kept:
            outputs = [Path(kept, name) for name in ("stdout", "stderr")]
            order = [list(arguments), str(folder), [*map(str, outputs)], code]
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, "the interpreter with MegEngine has ended"
            texts = [path.read_text("utf-8") for path in outputs]
        return subprocess.CompletedProcess(arguments, int(line), *texts)

    def close(self) -> None:
        self._process.communicate(timeout=TIMEOUT_S)


class Runner:
    """Runs load_and_run like the agent, in an empty folder, with a memory limit."""

    def __init__(self, python: str, folder: Path, fork_server: ForkServer) -> None:
        self.python, self.folder, self._fork_server = python, folder, fork_server

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._fork_server.run(arguments, self.folder)

    def script(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script that may import load_and_run, as `python -c CODE ARGUMENTS` would."""
        return self._fork_server.run(arguments, self.folder, code)

    def in_new_interpreter(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run load_and_run in a new interpreter, with the environment of the test."""
        return subprocess.run(
            [*_limited(self.python), str(FOLDER), *arguments],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def _limited(python: str) -> list[str]:
    return ["/bin/sh", "-c", 'ulimit -v 8000000; exec "$@"', "sh", python]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


#: program for the runtime's Python; SIGALRM ends a run that hangs
_FORK_SERVER = """
import json, os, signal, sys, traceback
folder, timeout_s = sys.argv[1], int(sys.argv[2])
sys.path.append(os.path.dirname(folder))
from load_and_run.__main__ import leave, main
exec(sys.argv[3])

def run(arguments, work, outputs, code):
    signal.alarm(timeout_s)
    os.chdir(work)
    opened = [os.open(os.devnull, os.O_RDONLY)]
    opened += [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in outputs]
    for number, descriptor in enumerate(opened):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = [folder] + arguments
    if not code:
        leave(main(sys.argv))
    exec(code, {"__name__": "__main__"})
    leave(0)

for line in iter(sys.stdin.readline, ""):
    child = os.fork()
    if not child:
        try:
            run(*json.loads(line))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(70)
    _, status = os.waitpid(child, 0)
    ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    sys.stdout.write("%d\\n" % ended)
    sys.stdout.flush()
"""


def models() -> list[dict]:
    return json.loads((DATA / "models" / "models.json").read_text())


def model(name: str) -> str:
    return str(DATA / "models" / f"{name}.mge")


def assert_died(done: subprocess.CompletedProcess[str], kind: str, text: str) -> None:
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert f"terminate called after throwing an instance of '{kind}'\n  what():  " in done.stderr
    assert text in done.stderr
