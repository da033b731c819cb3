"""Run a program as `python PROGRAM ARGUMENTS` would, and record what MegEngine does in it.

    <python> <this folder> --format=chrome_timeline.json [--sample_rate=0] [--profile_device=1]
        PROGRAM [ARGUMENT...]

Started in a folder that holds `program`, where PROGRAM is and which becomes the working folder, and
`traces`, where `<pid>.<format>` is left, and `raised`: the exception that nobody caught, in a line.
What is printed goes out line by line, as on a terminal: somebody reads along, and what a killed
process held back would be lost. With `--try` alone it only says whether it could. No module of
ours, nor one of the standard library that we need not have, is in the way of the program's: what
they call theirs is theirs.

The Profiler starts when the program has imported MegEngine, so what it sets before (environment
variables, its own modules) is as without us. It stops at the very end, after threads and what the
program registered with atexit. A Profiler that the program starts itself takes the place of ours:
who marks what is to be recorded wants no more than that.
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

from _web_profile_pauses import Pauses

#: of an exception's message, so many are told
_MOST_LINES = 3
_FLAGS = ("--format", "--sample_rate", "--profile_device")


class Mounted(object):
    """MegEngine's Profiler around the program; `mount` when MegEngine has been imported."""

    def __init__(self, folder, flags, say):
        self._folder, self._say = folder, say
        self._format = flags["--format"]
        self._options = {
            "sample_rate": int(flags.get("--sample_rate", 0)),
            "profile_device": int(flags.get("--profile_device", 1)),
        }
        self._owner = os.getpid()
        self._pauses = Pauses(say)
        self._profiling = None
        self._ours = None
        self._start = None
        #: where the program's own Profilers write, in the order of their starts
        self._written = []

    def mount(self):
        try:
            self._mount()
        except Exception as error:
            text = "MegEngine's Profiler does not start: {}: {}"
            self._say(text.format(type(error).__name__, error))

    def _mount(self):
        from megengine.utils import profiler as profiling

        self._profiling = profiling
        self._start = profiling.Profiler.start
        mounted = self

        def start(profiler):
            mounted._make_room(profiler)
            mounted._pauses.forget(profiler)
            return mounted._start(profiler)

        profiling.Profiler.start = start
        self._pauses.install(profiling, self._start)
        self._ours = profiling.Profiler(self._folder, formats=[self._format], **self._options)
        self._start(self._ours)
        # what was registered before runs later: MegEngine's own end comes after this
        atexit.register(self.finish)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def finish(self):
        """Write the trace, and see that it lies in the folder."""
        if os.getpid() != self._owner:
            return
        try:
            # it says where the trace lies, also into an output that the program has closed: that
            # would become its exit code
            self._profiling.get_logger().setLevel(logging.ERROR)
            self._profiling._stop_current_profiler()
            self._fetch()
        except Exception as error:
            self._say("the trace could not be written: {}: {}".format(type(error).__name__, error))

    def _make_room(self, profiler):
        """The program starts a Profiler of its own, of which MegEngine allows one at a time."""
        if self._ours is not None:
            self._say("the program uses a Profiler of its own: what that records is kept")
            ours, self._ours = self._ours, None
            if self._profiling._running_profiler is ours:
                ours.stop()
            # without its callback nothing is written
            ours._dump_callback = None
            self._pauses.forget(ours)
            self._profiling._living_profilers.discard(ours)
        if profiler._formats != [self._format]:
            text = "its Profiler writes {} in this run, not {}"
            self._say(text.format(self._format, ", ".join(profiler._formats)))
            # two at once end MegEngine 1.13
            profiler._formats = [self._format]
        profiler._path = os.path.abspath(profiler._path)
        if profiler._path not in self._written:
            self._written.append(profiler._path)

    def _fetch(self):
        """Bring the program's own record, the last one that was written, where ours would be."""
        name = "{}.{}".format(self._owner, self._format)
        paths = [os.path.join(folder, name) for folder in self._written]
        paths = [path for path in paths if os.path.isfile(path)]
        if paths:
            _move(max(paths, key=os.path.getmtime), os.path.join(self._folder, name))

    def _forget(self):
        """A fork has none of MegEngine's threads: to stop the Profiler there would hang."""
        if signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._profiling._running_profiler = None
        self._pauses.forget_all()
        for profiler in list(self._profiling._living_profilers):
            profiler._dump_callback = None


def _move(source, target):
    """Move a file, also from another mount, as /tmp and /dev/shm are.

    Without shutil: a program may have a module of that name.
    """
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # what is half there has another name
        partial = target + ".part"
        with open(source, "rb") as read, open(partial, "wb") as write:
            for piece in iter(lambda: read.read(1 << 20), b""):
                write.write(piece)
        os.replace(partial, target)
        os.remove(source)


def _end(number, frame):
    """The time is over: leave as by sys.exit, so that the trace is written."""
    sys.exit(128 + number)


class AfterImport(object):
    """A finder of modules that calls `then` once, when the package `name` has been imported."""

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
                execute(module)
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
    spare = os.dup(2)

    def say(text):
        try:
            os.write(spare, "[profiling] {}\n".format(text).encode("utf-8", "replace"))
        except OSError:
            pass  # the program closed it

    traces = os.path.join(work, "traces")
    mounted = Mounted(traces, flags, say)
    sys.meta_path.insert(0, AfterImport("megengine", mounted.mount))
    _print_by_lines()
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


def _print_by_lines():
    """Hold back no line of either output, so that they also come in the order of their prints."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
        elif stream is not None:  # Python 3.6
            kept = {"encoding": stream.encoding, "errors": stream.errors}
            made = io.TextIOWrapper(stream.detach(), line_buffering=True, **kept)
            setattr(sys, name, made)
            setattr(sys, "__{}__".format(name), made)


def _run(program, arguments, note):
    """Return the exit code of an exception that nobody caught, None for a normal end.

    SystemExit goes on to the interpreter, which knows best what it means. `note` is the file for
    the exception in a line.
    """
    path = os.path.abspath(program)
    sys.argv[:] = [program] + arguments
    sys.path[0] = os.path.dirname(path)
    # ours stays alive, but is not what the program and its pickles call __main__
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
        # without our own frame, which is the first
        raised = error.with_traceback(error.__traceback__.tb_next)
        _note(raised, note)
        sys.excepthook(type(raised), raised, raised.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return None


def _note(error, path):
    """Leave the exception in a line, without the addresses of C++ that MegEngine's go on with."""
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
    except Exception:  # its __str__ is the program's, and the disk may be full
        return


if __name__ == "__main__":
    main(sys.argv)
