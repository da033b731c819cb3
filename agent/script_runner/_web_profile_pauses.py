"""Pause the Profiler where MegEngine cannot record, and join the traces between the pauses.

The module's name is chosen so that no module of a program has it; see `__main__`.
"""

import os

#: attribute of functions of trace() that train
_TRAINS = "_web_profile_trains"
#: most parts that are joined; later parts are dropped, except the last one
_MOST_PARTS = 1000


class ProfilerPauses(object):
    """Pauses the Profiler while a function of `trace()` trains, and joins the recorded parts.

    While a Profiler runs, MegEngine 1.13 puts a scope around each step of `GradManager.backward`,
    and tracing fails there with "no fallback implementation for PushScope", whatever the options.
    In the first call of the function, which Python executes, the Profiler pauses for `backward`
    only. It pauses for the whole of later calls: they execute the compiled graph, which it does not
    record, and stopping it inside of one could deadlock with Python.
    """

    def __init__(self, say):
        self._say = say
        self._profiling = self._start = None
        #: parts that each Profiler recorded before its pauses: functions that write them to a path
        self._parts = {}
        self._is_announced = False

    def install(self, profiling, start):
        """Wrap MegEngine's functions; do nothing if this version lacks one of them."""
        self._profiling, self._start = profiling, start
        try:
            from megengine.core.autodiff.grad import Grad
            from megengine.jit import tracing

            call, backward, dump = tracing.trace.__call__, Grad.__call__, profiling.Profiler.dump
            tracing.active_trace  # noqa: B018 - raises AttributeError if it is missing
        except (ImportError, AttributeError):
            return
        pauses = self

        def call_paused(traced, *arguments, **keywords):
            if not vars(traced).get(_TRAINS):
                return call(traced, *arguments, **keywords)
            return pauses._pause(call, (traced,) + arguments, keywords)

        def backward_paused(grad, *arguments, **keywords):
            traced = tracing.active_trace
            if traced is None:
                return backward(grad, *arguments, **keywords)
            setattr(traced, _TRAINS, True)
            return pauses._pause(backward, (grad,) + arguments, keywords)

        def dump_joined(profiler):
            parts = pauses._parts.pop(profiler, [])
            if not parts:
                return dump(profiler)
            last = profiler._dump_callback
            profiler._dump_callback = pauses._joined(parts + ([last] if last else []))
            profiling._living_profilers.add(profiler)
            return dump(profiler)

        tracing.trace.__call__, Grad.__call__ = call_paused, backward_paused
        profiling.Profiler.dump = dump_joined

    def forget(self, profiler):
        """Discard the parts that a Profiler has recorded."""
        self._parts.pop(profiler, None)

    def forget_all(self):
        """Discard the parts of all Profilers."""
        self._parts.clear()

    def _pause(self, function, arguments, keywords):
        """Call `function` with the Profiler paused."""
        profiler = self._profiling._running_profiler
        if profiler is None:
            return function(*arguments, **keywords)
        self._announce()
        profiler.stop()
        parts = self._parts.setdefault(profiler, [])
        if len(parts) < _MOST_PARTS:
            parts.append(profiler._dump_callback)
            if len(parts) == _MOST_PARTS:
                self._say("only the last part is recorded after pause {}".format(_MOST_PARTS))
        profiler._dump_callback = None
        try:
            return function(*arguments, **keywords)
        finally:
            # unless the program has started or stopped a Profiler in the meantime
            if profiler in self._parts and self._profiling._running_profiler is None:
                self._start(profiler)

    def _announce(self):
        if not self._is_announced:
            self._is_announced = True
            self._say(
                "a function of trace() trains here, which MegEngine does not support under its "
                "Profiler (PushScope): the Profiler pauses in each call. To record its operators, "
                "run it without trace()"
            )

    def _joined(self, parts):
        """Return a function that writes the joined timelines, or the largest part otherwise."""

        def write(path, format):
            paths = ["{}.{}".format(path, number) for number in range(len(parts))]
            for part_path, write_part in zip(paths, parts):  # noqa: B905 - Python 3.6
                write_part(part_path, format)
            largest = max(paths, key=os.path.getsize)
            why = "this format cannot be joined"
            if format.endswith(".json"):
                try:
                    why = _join(self._profiling.json, paths, path)
                except Exception as error:  # a version of MegEngine with another format
                    why = "{}: {}".format(type(error).__name__, error)
            if why:
                self._say("the largest part between two pauses is kept: {}".format(why))
                os.replace(largest, path)
            for part_path in paths:
                if os.path.exists(part_path):
                    os.remove(part_path)

        return write


def _join(json, part_paths, path):
    """Join timelines of one process, in this order; `json` is MegEngine's own json module.

    The times of each part count from its own start, `localTime` in ns, and its thread ids are
    independent of the other parts'.
    """
    threads, first_start = {}, None
    with open(path, "w") as sink:
        sink.write('{"traceEvents":[')
        for number, part_path in enumerate(part_paths):
            with open(part_path) as source:
                document = json.load(source)
            start = int(document["metadata"]["localTime"])
            first_start = start if first_start is None else first_start
            ends = _inner_ends(number, len(part_paths))
            events, names = document["traceEvents"], {}
            for event in events:
                if event["ph"] == "M":
                    names[event["tid"]] = event["args"]["name"]
            for event in events:
                if event["name"] in ends or event["ph"] == "M":
                    continue
                name = names.get(event.get("tid"), "")
                event["tid"] = threads.setdefault(name, len(threads))
                event["ts"] += (start - first_start) / 1000.0
                sink.write(json.dumps(event, separators=(",", ":")) + ",\n")
        pid = os.getpid()
        thread_names = [
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
            for name, tid in threads.items()
        ]
        sink.write(json.dumps(thread_names)[1:-1])
        sink.write('],"metadata":{"localTime":"' + str(first_start) + '"}}')


def _inner_ends(number, count):
    """Return the start and end events to drop from a part: all but the first and the last one."""
    return (("StartProfile",) if number else ()) + (("StopProfile",) if number < count - 1 else ())
