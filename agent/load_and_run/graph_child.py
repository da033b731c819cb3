"""Run jobs of MegEngine's graph API in a child process.

MegEngine and megenginelite must not be used in the same process (see graph_library). A crash of
the library ends only the child, and the run reports it. The child belongs to the process group of
its parent and ends with it.
"""

import json
import os
import signal
import subprocess
import sys

from load_and_run.errors import Failure

#: kinds of jobs: name -> (module, function that takes the job)
WORK = {
    "passes": ("load_and_run.graph_passes", "work"),
    "range": ("load_and_run.graph_range", "work"),
    "operators": ("load_and_run.graph_passes", "list_operator_types"),
    "outputs": ("load_and_run.graph_passes", "list_outputs"),
}
# Not -m, and this folder last on sys.path: neither the working folder nor this one may hide
# installed modules.
_LAUNCH = (
    "import sys; sys.path[:1] = []; sys.path.append(sys.argv[1]); "
    "from load_and_run.graph_child import main; main(sys.argv[2], sys.argv[3])"
)


def run(name, job, folder):
    """Run a job (a dict of JSON values) in a child process; return the result, a JSON value.

    The child's working folder is that of this process; job and answer are exchanged by files in
    `folder`. Raises the Failure that ended the child.
    """
    path = os.path.join(folder, "graph_{}.json".format(name))
    answer = path + ".answer"
    _write(path, job)
    parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-c", _LAUNCH, parent, name, path]
    try:
        with open(os.devnull, "r+b") as nothing:
            code = subprocess.call(
                command,
                stdin=nothing,
                stdout=nothing,
                env=dict(os.environ, MGE_FASTRUN_CACHE_TYPE="MEMORY"),
            )
        return _read_answer(answer, name, code)
    except OSError as error:
        raise Failure("cannot start the process for the graph {}: {}".format(name, error))
    finally:
        for file in (path, answer):
            if os.path.exists(file):
                os.remove(file)


def main(name, path):
    """Entry point of the child: run the job in the file `path`, write an answer file next to it."""
    import importlib

    try:
        with open(path, encoding="utf-8") as file:
            job = json.load(file)
        module, function = WORK[name]
        answer = {"result": getattr(importlib.import_module(module), function)(job)}
    except Failure as failure:
        answer = {"kind": failure.kind, "text": str(failure)}
    except MemoryError:
        answer = {"kind": "std::bad_alloc", "text": "std::bad_alloc"}
    _write(path + ".answer", answer)
    # without finalization of the interpreter, during which MegEngine's threads may crash
    sys.stderr.flush()
    os._exit(0)


def _write(path, value):
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
    except OSError as error:
        raise Failure("cannot write {}: {}".format(path, error.strerror))


def _read_answer(path, name, code):
    """Return the result of a child. Raises the Failure that ended it."""
    try:
        with open(path, encoding="utf-8") as file:
            answer = json.load(file)
    except (OSError, ValueError):
        raise Failure(_describe_exit(name, code))
    if "kind" in answer:
        raise Failure(answer["text"], answer["kind"])
    return answer["result"]


def _describe_exit(name, code):
    what = "the process for the graph {} ".format(name)
    if code >= 0:
        return what + "ended with exit code {} and no result".format(code)
    try:
        return what + "was ended by {}".format(signal.Signals(-code).name)
    except ValueError:
        return what + "was ended by signal {}".format(-code)
