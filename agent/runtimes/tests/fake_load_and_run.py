#!/usr/bin/env python3
"""Fake load_and_run of any version from 1.6 to 1.13: its output, exit codes and signals.

Output and failures are those of the real 1.13.0, recorded in testdata/load_and_run, in the format
of the chosen version. It computes nothing; times and profiles are recorded ones. The version is in
FAKE_LOAD_AND_RUN_VERSION or in the program's name (load_and_run-1.10.0), as are differences of the
build: -nocuda, -tensorrt. `install_fake` writes such a program.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable  # before a test hides it
sys.path.insert(0, str(HERE))

from fake_command_line import Abort, parse_gflags, parse_legacy  # noqa: E402
from fake_flags import LEGACY_HELP, flags_of  # noqa: E402

NPY_TYPES = ("f4", "i4", "i2", "u2", "i1", "u1")
#: flags that end it when all of a line are set: what, kind, extra
FATAL = (
    (("fast_run", "full_run"), ("invalid options of both fast-run and full-run",)),
    (
        ("multithread", "multithread_default"),
        (
            "assertion `num_of_thread < 0 || num_of_thread_dft < 0' failed",
            "mgb::AssertionError",
            "multithread and multithread_default should not bet set at the same time",
        ),
    ),
    (
        ("cuda",),
        (
            "assertion `locator.device >= 0 && locator.device < nr_gpu' failed",
            "mgb::AssertionError",
            "request gpu0 out of valid range [0, 0)",
        ),
    ),
    (("record_comp_seq2", "profile"), ("to_json unsupported on RecordedComputingSequence",)),
)
DUMP = b"var0 produced: name=data\n val: [1, 2] min=1 max=2 mean=1.5 l2=1 sd=1 s\n"


def _recorded():
    """Return a folder with the recorded data, since a sandbox may hide testdata's `DATA`."""
    from testdata import DATA  # the program itself runs without the repository on its path

    folder = Path(tempfile.gettempdir()) / f"recorded-load-and-run-{DATA.name}"
    if not folder.is_dir():
        new = Path(tempfile.mkdtemp(prefix="recorded-"))
        shutil.copytree(DATA / "load_and_run", new / "load_and_run")
        (new / "models").mkdir()
        shutil.copyfile(DATA / "models" / "models.json", new / "models" / "models.json")
        new.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was first
            new.rename(folder)
    return folder


def install_fake(folder, version="1.13.0", suffix=""):
    """Write a program `load_and_run-<version><suffix>` into the folder, return its path."""
    path = Path(folder) / f"load_and_run-{version}{suffix}"
    path.write_text(
        f"#!{PYTHON} -IS\nimport runpy, sys\n"
        f"program = runpy.run_path({str(HERE / 'fake_load_and_run.py')!r})\n"
        f"program['main'](sys.argv, {str(_recorded())!r})\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class Program:
    def __init__(self, argv, data):
        self.data = Path(data)
        name = os.environ.get("FAKE_LOAD_AND_RUN_VERSION") or Path(argv[0]).name
        match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", name)
        numbers = [int(number or 0) for number in match.groups()] if match else [1, 13, 0]
        self.version, self.number = ".".join(map(str, numbers)), tuple(numbers[:2])
        self.builds = {"fast_run", "cuda"} - ({"cuda"} if "-nocuda" in name else set())
        self.builds |= {"tensorrt"} if "-tensorrt" in name else set()
        self.legacy = self.number <= (1, 6)

    def run(self, argv):
        if len(argv) < 2:
            self.print_usage(argv[0])
            return 255
        if self.legacy:
            print(self.banner())
            parsed = parse_legacy(argv)
        else:
            parsed = parse_gflags(argv[1:], flags_of(self.number, frozenset(self.builds)))
        if isinstance(parsed, int):
            return parsed
        model, flags = parsed
        if not self.legacy:
            if model is None:
                raise Abort("basic_string::_S_construct null not valid", "std::logic_error")
            self.say(f"megbrain/lite/load_and_run:\n{self.banner()}\n", "run", "138")
        Run(self, Path(model), flags).do()
        return 0

    def print_usage(self, name):
        if self.legacy:
            print(f"{self.banner()}\nusage: {name} <model file> [options...]")
            print(f"Where options are:{LEGACY_HELP}")
        else:
            print((self.data / "load_and_run" / "err__no_args" / "stdout.txt").read_text(), end="")

    def warn(self, text):
        """Write a line of the library's own log, which goes to stderr in all versions."""
        mark = " " if self.number >= (1, 11) else "[WARN] "
        sys.stderr.write(f"[20 22:51:35 f@options.cpp:1]{mark}{text}\n")
        sys.stderr.flush()

    def banner(self):
        start = "mgb load-and-run: " if self.legacy else ""
        return f"{start}using MegBrain {self.version}(0) and MegDNN 9.3.0"

    def say(self, text, function="run_subline", line="51"):
        """Write a line of the log; output to a pipe is buffered, and an abort loses the buffer."""
        if self.number >= (1, 11):
            sys.stderr.write(f"[20 22:51:35 {function}@strategy_normal.cpp:{line}] {text}\n")
            sys.stderr.flush()
        else:
            sys.stdout.write(text + "\n")


class Run:
    """One run: it fails where the real program would fail, else it replays a recorded run."""

    def __init__(self, program, model, flags):
        self.program, self.model, self.flags = program, model, flags
        self.say = program.say
        self.runs = program.data / "load_and_run"
        self.known = None

    def on(self, name):
        return name in self.flags

    def number(self, name, default):
        return int(self.flags.get(name, default), 0)

    def do(self):
        self.check_model()
        self.check_flags()
        self.say("load model: 3.985ms\n")
        self.check_inputs()
        if self.on("model_info"):
            self.print_info()
        iterations, times = self.number("iter", "10"), self.times()
        self.program.warn("run testcase: 0 ")
        self.warm_up(self.number("warmup_iter", "1"))
        if iterations < 0:
            time.sleep(3600)
        total = self.iterate(times, iterations)
        self.say(f"=== total time: {total:.3f}ms\n", "run_subline", "129")
        self.write_files(iterations + self.number("warmup_iter", "1"))

    def check_model(self):
        if not self.model.is_file():
            what = "assertion `fin' failed at model.cpp:12"
            raise Abort(what, extra=f"failed to open {self.model}: No such file or directory")
        content = self.model.read_bytes()
        length = int.from_bytes(content[:4], "little") + 4
        if len(content) < 16 or (content[8:12] == b"mgv2" and length > len(content)):
            raise Abort("assertion `nr == size' failed at /home/code/src/serialization/file.cpp:43")
        self.program.warn("creat mdl model use XPU as default comp node")
        listed = json.loads((self.program.data / "models" / "models.json").read_text())
        digest = hashlib.sha256(content).hexdigest()
        # first the name: a large model is not in the repository, and tests put another in its place
        named = [entry for entry in listed if entry["name"] == self.model.stem]
        same = [entry for entry in listed if entry.get("sha256") == digest]
        self.known = next(iter(named + same), None)

    def check_flags(self):
        on = self.on
        for flags, failure in FATAL:
            if all(map(on, flags)):
                raise Abort(*failure)
        if on("record_comp_seq2") and not on("no_sanity_check"):
            raise Abort("comp_node_seq_record_level 2 needs var_sanity_check_first_run off")
        if on("record_comp_seq") and (on("profile") or on("profile_host")):
            time.sleep(3600)
        if on("io_dump") and (on("bin_io_dump") or not writable(self.flags["io_dump"])):
            os.kill(os.getpid(), signal.SIGSEGV)
        for name in ("bin_io_dump", "bin_out_dump"):
            if on(name) and not Path(self.flags[name]).is_dir():
                raise Abort(f"failed to open {self.flags[name]}", "mgb::SystemError")
        if not re.fullmatch("[0-9a-zA-Z/]+", self.flags.get("get_static_mem_info", "ok")):
            raise Abort("log_dir only supports [0-9a-zA-Z/]")

    def check_inputs(self):
        if not self.on("input") or self.number("batch_size", "-1") > 0:
            return
        for item in self.flags["input"].split(";"):
            name, colon, value = item.partition(":")
            name, value = (name, value) if colon else ("data", item)
            dtype = read_item(value)
            dtypes = {
                tensor["name"]: tensor["dtype"] for tensor in (self.known or {}).get("inputs", ())
            }
            if self.known and name not in dtypes and not value.endswith(".json"):
                raise Abort("assertion `it != end' failed", extra=f"can't find tesnor named {name}")
            lite = self.on("lite")
            if self.known and dtype and not lite and dtype != dtypes.get(name, dtype):
                raise Abort(f"attempt to access dtype {dtypes[name]} as {dtype}")

    def print_info(self):
        rows = [("INPUT", tensor) for tensor in (self.known or {}).get("inputs", ())]
        rows += [
            ("OUTPUT", tensor | {"name": "out"}) for tensor in (self.known or {}).get("outputs", ())
        ]
        lines = ["", "+Runtime Model Info---+", "|  type  |  name  |  shape  |  dtype  |"]
        for direction, tensor in rows:
            dtype = tensor["dtype"] if tensor["dtype"] not in ("float16", "int64") else ""
            shape = ",".join(map(str, tensor["shape"]))
            lines.append(f"| {direction:<6} | {tensor['name']} | {{{shape}}} | {dtype:^7} |")
        self.say("\n".join([*lines, "+--------+--------+---------+---------+\n"]), "print", "246")

    def recorded(self):
        """Return the recorded run that is most similar to this one."""
        name = (self.known or {}).get("name", "tiny")
        if name == "resnet18_opt":
            for flag, case in (
                ("lite", "opt__lite_profile"),
                ("multithread", "opt__multithread"),
                ("cpu_default", "opt__cpu_default"),
                ("record_comp_seq", "opt__record"),
            ):
                if self.on(flag):
                    return self.runs / case
        case = self.runs / f"{name}__profile"
        return case if case.is_dir() else self.runs / "tiny__profile"

    def profile(self):
        """Return the recorded profile; most runs have only the one of their model."""
        name = (self.known or {}).get("name", "tiny")
        for case in (self.recorded(), self.runs / f"{name}__profile"):
            if (case / "profile.json").is_file():
                return case / "profile.json"
        return self.runs / "tiny__profile" / "profile.json"

    def times(self):
        text = (self.recorded() / "stderr.txt").read_text()
        times = re.findall(r"e2e=([\d.]+) ms \(host=([\d.]+) ms\)", text)
        return [(float(e2e), float(host)) for e2e, host in times]

    def warm_up(self, count):
        number = self.program.number
        if number <= (1, 6):
            self.say("=== prepare: 2.418ms; going to warmup")
        for index in range(count):
            if number > (1, 6):
                prepare = 0.001 if index else 2.418
                self.say(f"=== prepare: {prepare:.3f}ms; going to warmup", "operator()", "67")
            words = f"warmup {index}:" if number <= (1, 6) else f"warm up {index} "
            self.say(f"{words} 17.724ms", "operator()", "70")

    def iterate(self, times, count):
        e2e = [times[index % len(times)][0] for index in range(count)]
        for index in range(count):
            whole, host = times[index % len(times)]
            line = self.iteration(whole, host)
            self.say(f"iter {index}/{count}: {line}", "operator()", "88")
            sys.stdout.flush()
        if e2e:
            self.say(self.finished(e2e), "operator()", "97")
        return sum(e2e)

    def iteration(self, e2e, host):
        number = self.program.number
        if number <= (1, 6):
            return f"{e2e:.3f}ms (exec={host:.3f},device={e2e:.3f})"
        if number <= (1, 8):
            return f"{e2e:.3f}ms (exec={host:.3f}ms)"
        if number <= (1, 9):
            return f"{e2e:.3f} ms (exec={host:.3f} ms)"
        return f"e2e={e2e:.3f} ms (host={host:.3f} ms)"

    def finished(self, times):
        number, count = self.program.number, len(times)
        mean = sum(times) / count
        sd = (
            (sum((time_ms - mean) ** 2 for time_ms in times) / (count - 1)) ** 0.5
            if count > 1
            else None
        )
        sd = "-nan" if sd is None else f"{sd:.3f}"
        low, high, total = min(times), max(times), sum(times)
        start = "=== finished test #0: "
        if number <= (1, 6):
            return (
                f"{start}time={total:.3f}ms avg_time={mean:.3f}ms sd={sd}ms minmax={low},{high}\n"
            )
        gap = "" if number <= (1, 8) else " "
        word = "sexec" if number <= (1, 9) else "standard_deviation"
        return start + (
            f"time={total:.3f}{gap}ms avg_time={mean:.3f}{gap}ms {word}={sd}{gap}ms "
            f"min={low:.3f}{gap}ms max={high:.3f}{gap}ms"
        )

    def write_files(self, runs):
        profile = self.profile().read_bytes()
        model = self.model.read_bytes()
        for name, content in (
            ("profile", profile),
            ("profile_host", profile),
            ("io_dump", DUMP),
            ("fast_run_algo_policy", b"cache"),
            ("tensorrt_cache", b"engine"),
            ("model_dump", model),
            ("layout_transform_dump", model),
            ("packed_model_dump", model),
        ):
            path = self.flags.get(name)
            if path and not writable(path):
                raise Abort(f"failed to open {path}", "mgb::SystemError")
            if path:
                Path(path).write_bytes(content)
        for name in ("profile", "profile_host"):
            if self.on(name):
                self.program.warn(f"profiling result written to {self.flags[name]}")
        self.write_folders(runs, profile)

    def write_folders(self, runs, profile):
        if self.on("bin_out_dump"):
            for run in range(runs):
                tensor(Path(self.flags["bin_out_dump"]) / f"run{run}-var8", "out")
        if self.on("bin_io_dump"):
            tensor(Path(self.flags["bin_io_dump"]) / "000000", "data")
        if self.on("get_static_mem_info"):
            folder = Path(self.flags["get_static_mem_info"].lstrip("/"))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "StaticMemoryInfo.json").write_text('{"opr": {}, "chunk": {}}')
            graph = {"graph_exec": json.loads(profile)["graph_exec"]}
            (folder / "graph.json").write_text(json.dumps(graph))


def read_item(value):
    """Return the dtype of an item of --input if it is a file; fail like the real program."""
    if not value.endswith(".npy"):
        if value.endswith((".json", ".ppm", ".pgm")) and not Path(value).is_file():
            raise Abort("parse json fail")
        return ""
    if not Path(value).is_file():
        sys.stderr.write("io error: failed to open a file.io error: failed reading file")
        raise Abort("basic_string::erase: __pos > this->size()", "std::out_of_range")
    header = Path(value).read_bytes()[:256].decode("latin-1")
    if "'shape': ()" in header:
        os.kill(os.getpid(), signal.SIGSEGV)
    for short in NPY_TYPES:
        if f"{short}'" in header:
            return {"f": "float", "i": "int", "u": "uint"}[short[0]] + str(int(short[1]) * 8)
    raise Abort("assertion `m_layout.dtype.valid()' failed")


def tensor(path, name):
    """Return a variable in MegEngine's binary format: float32 {1,2}."""
    head = b"".join(n.to_bytes(4, "little") for n in (len(name), 0, 7, 1, 2, 0, 0, 0, 0, 0))
    path.write_bytes(head + name.encode() + bytes(8))


def writable(path):
    return os.access(Path(path).parent, os.W_OK) and not Path(path).is_dir()


def main(argv, data):
    program = Program(argv, data)
    try:
        sys.exit(program.run(argv))
    except Abort as abort:
        extra = f"extra message: {abort.extra}\n" if abort.extra else ""
        sys.stderr.write(
            f"terminate called after throwing an instance of '{abort.kind}'\n"
            f"  what():  {abort.what}\n{extra}\n"
            "backtrace:\nload_and_run(+0xdd95d) [0x562f84de895d]\n"
        )
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGABRT)
