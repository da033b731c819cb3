#!/usr/bin/env python3
"""Fake load_and_run that computes nothing. Simulated devices run it in their agent's sandbox.

It accepts load_and_run's command line, runs for `--iter` times 10 ms, prints the output of
load_and_run 1.13, and writes the profile that the wheel recorded for `tasks/health.mge`
(recorded/profile.json). A file that is not a model ends it with the error of the real program.
Uses only the standard library.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

ITERATION_S = 0.01
PROFILE = Path(__file__).resolve().parent / "recorded" / "profile.json"
BANNER = "using MegBrain 1.13.0(0) and MegDNN 9.3.0"
#: the flags that the agent's passes use, printed as gflags does
FLAGS = (
    ("input", "string", '""'),
    ("iter", "int32", "10"),
    ("warmup_iter", "int32", "1"),
    ("no_sanity_check", "bool", "false"),
    ("profile", "string", '""'),
    ("model_info", "bool", "false"),
)


def main(argv: list[str]) -> int:
    if argv[1:2] == ["--help"]:
        for name, kind, default in FLAGS:
            print(f"    -{name} (as in load_and_run) type: {kind} default: {default}")
        print(BANNER)
        return 0
    if len(argv) < 2:
        return 255
    flags = [word.lstrip("-").partition("=")[::2] for word in argv[2:]]
    return run(Path(argv[1]), dict(flags))


def run(model: Path, flags: dict[str, str]) -> int:
    _say(f"megbrain/lite/load_and_run:\n{BANNER}\n")
    if not model.is_file() or not model.read_bytes().startswith(b"MGBC"):
        _say("terminate called after throwing an instance of 'mgb::MegBrainError'")
        _say("  what():  assertion `m_format.valid()' failed: invalid model format")
        os.kill(os.getpid(), signal.SIGABRT)
    _say("load model: 3.985ms\n")
    _say("=== prepare: 2.418ms; going to warmup")
    _say("warm up 0  17.724ms")
    count = int(flags.get("iter", "10"))
    for index in range(count):
        time.sleep(ITERATION_S)
        _say(f"iter {index}/{count}: e2e=7.751 ms (host=0.250 ms)")
    if count:
        total = f"time={7.751 * count:.3f} ms avg_time=7.751 ms standard_deviation=0.000 ms"
        _say(f"=== finished test #0: {total} min=7.751 ms max=7.751 ms")
    _say(f"=== total time: {7.751 * count:.3f}ms\n")
    if flags.get("profile"):
        shutil.copyfile(PROFILE, flags["profile"])
        _say(f"profiling result written to {flags['profile']}")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"[21 21:08:31 run@replay.cpp:1] {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
