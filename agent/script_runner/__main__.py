"""Run a program as `python PROGRAM ARGUMENTS` would, and record what MegEngine does in it.

    <python> <this folder> --format=chrome_timeline.json [--sample_rate=0] [--profile_device=1]
        PROGRAM [ARGUMENT...]

The working folder at the start contains two folders: `program`, which contains PROGRAM and becomes
the program's working folder, and `traces`, where the runner writes `<pid>.<format>` and `raised`
(an uncaught exception, in one line). Output is line buffered as on a terminal, because users read
it live and a killed process would lose its buffer. With `--try` alone, only check that MegEngine is
readable. The runner's own modules have unusual names, and it imports few of the standard library,
so that it does not shadow the program's modules.

The Profiler starts after the program has imported MegEngine, so that the program can set
environment variables and import its own modules before. It stops at the very end, after the
program's threads and atexit functions. If the program starts a Profiler itself, the runner's is
discarded, so that only what the program selects is recorded.
"""

import atexit
import builtins
import errno
import io
import logging
import os
import signal
import sys
import threading
import types
from importlib.machinery import PathFinder, SourceFileLoader

from _web_profile_imports import call_without_unused
from _web_profile_pauses import ProfilerPauses

#: number of lines of an exception's message in `raised`
_MOST_LINES = 3
_FLAGS = ("--format", "--sample_rate", "--profile_device")


class RunnerProfiler(object):
    """The runner's Profiler. Call `mount` when the program has imported MegEngine."""

    def __init__(self, folder, flags, say):
        self._folder, self._say = folder, say
        self._format = flags["--format"]
        self._options = {
            "sample_rate": int(flags.get("--sample_rate", 0)),
            "profile_device": int(flags.get("--profile_device", 1)),
        }
        self._owner = os.getpid()
        self._pauses = ProfilerPauses(say)
        self._profiling = None
        self._profiler = None
        self._start = None
        #: paths that the program's own Profilers write to, in the order of their starts
        self._program_paths = []

    def mount(self):
        try:
            self._mount()
        except Exception as error:
            text = "MegEngine's Profiler could not be started: {}: {}"
            self._say(text.format(type(error).__name__, error))

    def _mount(self):
        from megengine.utils import profiler as profiling

        self._profiling = profiling
        self._start = profiling.Profiler.start
        runner = self

        def start(profiler):
            runner._give_way(profiler)
            runner._pauses.forget(profiler)
            return runner._start(profiler)

        profiling.Profiler.start = start
        self._pauses.install(profiling, self._start)
        self._profiler = profiling.Profiler(self._folder, formats=[self._format], **self._options)
        self._start(self._profiler)
        # atexit runs in reverse order, so MegEngine's own function runs after this one
        atexit.register(self.finish)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # novermin

    def finish(self):
        """Write the trace to the folder of traces."""
        if os.getpid() != self._owner:
            return
        try:
            # MegEngine logs the trace's path; if the program has closed the output, that would fail
            # and change the exit code
            self._profiling.get_logger().setLevel(logging.ERROR)
            self._profiling._stop_current_profiler()
            self._fetch_program_trace()
        except Exception as error:
            self._say("the trace could not be written: {}: {}".format(type(error).__name__, error))

    def _give_way(self, profiler):
        """Discard our Profiler for the program's, as MegEngine allows one at a time."""
        if self._profiler is not None:
            self._say("the program uses its own Profiler: only its records are kept")
            own, self._profiler = self._profiler, None
            if self._profiling._running_profiler is own:
                own.stop()
            # without its callback nothing is written
            own._dump_callback = None
            self._pauses.forget(own)
            self._profiling._living_profilers.discard(own)
        if profiler._formats != [self._format]:
            text = "its Profiler writes {} in this run, not {}"
            self._say(text.format(self._format, ", ".join(profiler._formats)))
            # two formats at once crash MegEngine 1.13
            profiler._formats = [self._format]
        profiler._path = os.path.abspath(profiler._path)
        if profiler._path not in self._program_paths:
            self._program_paths.append(profiler._path)

    def _fetch_program_trace(self):
        """Move the trace that the program's own Profiler wrote last to the folder of traces."""
        name = "{}.{}".format(self._owner, self._format)
        paths = [os.path.join(folder, name) for folder in self._program_paths]
        paths = [path for path in paths if os.path.isfile(path)]
        if paths:
            _move(max(paths, key=os.path.getmtime), os.path.join(self._folder, name))

    def _forget(self):
        """Forget the Profiler in a forked child.

        The child lacks MegEngine's threads, so stopping the Profiler would hang.
        """
        if signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._profiling._running_profiler = None
        self._pauses.forget_all()
        for profiler in list(self._profiling._living_profilers):
            profiler._dump_callback = None


def _move(source, target):
    """Move a file, if necessary to another file system (/tmp and /dev/shm are separate mounts).

    It does not use shutil, because the program may have a module of that name.
    """
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # copy under a temporary name, so that the target is never incomplete
        partial = target + ".part"
        with open(source, "rb") as reader, open(partial, "wb") as writer:
            for chunk in iter(lambda: reader.read(1 << 20), b""):
                writer.write(chunk)
        os.replace(partial, target)
        os.remove(source)


def _end(number, frame):
    """Handle SIGTERM at the time limit: exit by sys.exit, so that the trace is written."""
    sys.exit(128 + number)


class AfterImport(object):
    """A module finder that calls `then` once, after the package `name` has been imported."""

    def __init__(self, name, then):
        self._name, self._then = name, then

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute, then = spec.loader.exec_module, self._then

            def exec_module(module):
                call_without_unused(execute, module)
                then()

            spec.loader.exec_module = exec_module
        return spec


def main(argv):
    if argv[1:] == ["--try"]:
        spec = PathFinder.find_spec("megengine")
        if spec is None or not os.access(spec.origin, os.R_OK):
            sys.exit("this Python cannot read MegEngine")
        return
    flags, program, arguments = _parse(argv[1:])
    work = os.getcwd()
    os.chdir("program")
    stderr = os.dup(2)

    def say(text):
        try:
            os.write(stderr, "[profiling] {}\n".format(text).encode("utf-8", "replace"))
        except OSError:
            pass  # the program closed it

    traces = os.path.join(work, "traces")
    profiler = RunnerProfiler(traces, flags, say)
    sys.meta_path.insert(0, AfterImport("megengine", profiler.mount))
    _buffer_by_line()
    code = _run(program, arguments, os.path.join(traces, "raised"))
    if code is not None:
        sys.exit(code)


def _parse(arguments):
    flags, rest = {}, list(arguments)
    while rest and rest[0].startswith("--"):
        name, _, value = rest.pop(0).partition("=")
        if name not in _FLAGS:
            sys.exit("unknown flag {}".format(name))
        flags[name] = value
    if "--format" not in flags or not rest:
        sys.exit(__doc__)
    return flags, rest[0], rest[1:]


def _buffer_by_line():
    """Make stdout and stderr line buffered, which also keeps their lines in order."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
        elif stream is not None:  # Python 3.6
            encoding = {"encoding": stream.encoding, "errors": stream.errors}
            replacement = io.TextIOWrapper(stream.detach(), line_buffering=True, **encoding)
            setattr(sys, name, replacement)
            setattr(sys, "__{}__".format(name), replacement)


def _run(program, arguments, exception_path):
    """Run the program; return the exit code for an uncaught exception, None for a normal end.

    SystemExit is left to the interpreter. `exception_path` is the file for a one-line description
    of an uncaught exception.
    """
    path = os.path.abspath(program)
    sys.argv[:] = [program] + arguments
    sys.path[0] = os.path.dirname(path)
    # __main__ must be the program's module (its pickles need that), but ours must stay alive
    sys.modules["_web_profile_script_runner"] = sys.modules["__main__"]
    module = types.ModuleType("__main__")
    vars(module).update(
        __file__=path,
        __builtins__=builtins,
        __loader__=SourceFileLoader("__main__", path),
        __cached__=None,
    )
    sys.modules["__main__"] = module
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        # without the first frame, which is this function
        raised = error.with_traceback(error.__traceback__.tb_next)
        _write_exception(raised, exception_path)
        sys.excepthook(type(raised), raised, raised.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return None


def _write_exception(error, path):
    """Write the exception in one line, without the C++ backtrace of MegEngine's exceptions."""
    kind = type(error)
    name = getattr(kind, "__qualname__", kind.__name__)
    if kind.__module__ not in ("builtins", "__main__"):
        name = "{}.{}".format(kind.__module__, name)
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        ends = [number for number, line in enumerate(lines) if line.startswith("backtrace:")]
        message = "; ".join(lines[: min(ends[:1] + [_MOST_LINES])])
        text = ": ".join([name, message] if message else [name])
        with open(path, "wb") as file:
            file.write(text[:1000].encode("utf-8", "replace"))
    except Exception:  # the program's __str__ may fail, and the disk may be full
        return


if __name__ == "__main__":
    main(sys.argv)
