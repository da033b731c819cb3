"""The limited reader, started once for many profiles: starting it takes longer than most profiles.

Each profile is still read in a process of its own, which limits itself as in production.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

# Python's warnings are errors there, too
_PROGRAM = """
import os, sys, traceback
from pathlib import Path
from profiles.derived import limited
for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            code = limited.main(Path(line.strip()))
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def forking_reader(cwd: Any) -> Iterator[SimpleNamespace]:
    """What `profiles.derived.deriving` can use in place of `subprocess`."""
    command = [sys.executable, "-W", "error", "-c", _PROGRAM]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=cwd, text=True, **pipes) as server:

        def run(arguments: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
            assert server.stdin and server.stdout
            print(arguments[-1], file=server.stdin, flush=True)
            code = int(server.stdout.readline())
            return subprocess.CompletedProcess(arguments, code, stderr=b"see above")

        yield SimpleNamespace(
            run=run,
            DEVNULL=subprocess.DEVNULL,
            PIPE=subprocess.PIPE,
            TimeoutExpired=subprocess.TimeoutExpired,
        )
        server.stdin.close()
