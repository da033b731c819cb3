"""Pauses of the Profiler where MegEngine cannot be recorded, and records joined over them.

A module of a name that no program's has; see `__main__`.
"""

import os

#: marks functions of trace() that train
_TRAINS = "_web_profile_trains"
#: what lies between further pauses is left out, but for the last part
_MOST_PIECES = 1000


class Pauses(object):
    """The Profiler stops where a function of `trace()` trains, and what it recorded is joined.

    MegEngine 1.13 marks each step of `GradManager.backward` while a Profiler runs, and its trace
    cannot take such a mark: "no fallback implementation for PushScope", whatever the options. In
    the function's first call, where Python runs it, the Profiler pauses for `backward` alone, in
    later ones for all: they run compiled, which it does not see, and to stop it in their midst
    could wait for what only Python can give them.
    """

    def __init__(self, say):
        self._say = say
        self._profiling = self._start = self._tracing = None
        #: what each Profiler recorded before its pauses: functions that write it to a path
        self._pieces = {}
        self._said = False

    def install(self, profiling, start):
        """Watch the calls. A MegEngine that is built otherwise is left as it is."""
        self._profiling, self._start = profiling, start
        try:
            from megengine.core.autodiff.grad import Grad
            from megengine.jit import tracing

            call, backward, dump = tracing.trace.__call__, Grad.__call__, profiling.Profiler.dump
            tracing.active_trace  # noqa: B018 - is it there?
        except (ImportError, AttributeError):
            return
        pauses = self

        def called(run, *arguments, **named):
            if not vars(run).get(_TRAINS):
                return call(run, *arguments, **named)
            return pauses._apart(call, (run,) + arguments, named)

        def trained(grad, *arguments, **named):
            run = tracing.active_trace
            if run is None:
                return backward(grad, *arguments, **named)
            setattr(run, _TRAINS, True)
            return pauses._apart(backward, (grad,) + arguments, named)

        def dumped(profiler):
            pieces = pauses._pieces.pop(profiler, [])
            if not pieces:
                return dump(profiler)
            last = profiler._dump_callback
            profiler._dump_callback = pauses._joined(pieces + ([last] if last else []))
            profiling._living_profilers.add(profiler)
            return dump(profiler)

        tracing.trace.__call__, Grad.__call__ = called, trained
        profiling.Profiler.dump = dumped

    def forget(self, profiler):
        """What was recorded until now is not wanted any more."""
        self._pieces.pop(profiler, None)

    def forget_all(self):
        self._pieces.clear()

    def _apart(self, act, arguments, named):
        profiler = self._profiling._running_profiler
        if profiler is None:
            return act(*arguments, **named)
        self._tell()
        profiler.stop()
        pieces = self._pieces.setdefault(profiler, [])
        if len(pieces) < _MOST_PIECES:
            pieces.append(profiler._dump_callback)
            if len(pieces) == _MOST_PIECES:
                self._say("from pause {} on nothing is recorded".format(_MOST_PIECES))
        profiler._dump_callback = None
        try:
            return act(*arguments, **named)
        finally:
            # not if the program started or stopped one meanwhile
            if profiler in self._pieces and self._profiling._running_profiler is None:
                self._start(profiler)

    def _tell(self):
        if not self._said:
            self._said = True
            self._say(
                "a function of trace() trains here, which MegEngine cannot do under its Profiler "
                "(PushScope): the Profiler pauses in each call of it. To see its operators, run it "
                "without trace()"
            )

    def _joined(self, pieces):
        """Return a function that writes all as one: the timeline, or the memory's largest part."""

        def write(path, format):
            parts = ["{}.{}".format(path, number) for number in range(len(pieces))]
            for part, piece in zip(parts, pieces):  # noqa: B905 - Python 3.6
                piece(part, format)
            largest = max(parts, key=os.path.getsize)
            why = "this format cannot be joined"
            if format.endswith(".json"):
                try:
                    why = _join(self._profiling.json, parts, path)
                except Exception as error:  # another MegEngine's
                    why = "{}: {}".format(type(error).__name__, error)
            if why:
                self._say("the largest part between two pauses is kept: {}".format(why))
                os.replace(largest, path)
            for part in parts:
                if os.path.exists(part):
                    os.remove(part)

        return write


def _join(json, parts, path):
    """Write timelines of one process, in their order, as one; `json` is MegEngine's own.

    Each counts from its own start, which `localTime` tells in ns, and numbers its threads anew.
    """
    threads, began = {}, None
    with open(path, "w") as sink:
        sink.write('{"traceEvents":[')
        for number, part in enumerate(parts):
            with open(part) as source:
                document = json.load(source)
            local = int(document["metadata"]["localTime"])
            began = local if began is None else began
            ends = _inner_ends(number, len(parts))
            events, names = document["traceEvents"], {}
            for event in events:
                if event["ph"] == "M":
                    names[event["tid"]] = event["args"]["name"]
            for event in events:
                if event["name"] in ends or event["ph"] == "M":
                    continue
                name = names.get(event.get("tid"), "")
                event["tid"] = threads.setdefault(name, len(threads))
                event["ts"] += (local - began) / 1000.0
                sink.write(json.dumps(event, separators=(",", ":")) + ",\n")
        pid = os.getpid()
        thread_names = [
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
            for name, tid in threads.items()
        ]
        sink.write(json.dumps(thread_names)[1:-1])
        sink.write('],"metadata":{"localTime":"' + str(began) + '"}}')


def _inner_ends(number, count):
    """Where a recording begins and ends, of all but the first and the last part's."""
    return (("StartProfile",) if number else ()) + (("StopProfile",) if number < count - 1 else ())
