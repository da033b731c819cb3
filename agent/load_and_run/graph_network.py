"""Implement --mdl: run a model with the graph API, like `load_and_run --mdl`.

The graph is that of load_and_run plus one operator for each input and output, at the same speed.
Do not use it in a process in which megenginelite has run a model (see graph_library).
"""

import time

import numpy as np
from load_and_run import graph_library as api
from load_and_run import graph_passes
from load_and_run.errors import Failure, ProfileError, library_failure, log
from load_and_run.inputs import TensorSpec

#: flag -> line in the log
_LOG_LINES = {
    "no_sanity_check": "disable var sanity check optimization",
    "disable_mem_opt": "disable memory optimization",
    "fast_run": "enable fast-run strategy for algo profile",
    "full_run": "enable full-run strategy for algo profile",
    "reproducible": "enable reproducible strategy for algo profile",
    "weight_preprocess": "enable weight-preprocess optimization",
    "enable_fuse_preprocess": "enable fuse-preprocess optimization",
}


class GraphNetwork(object):
    """A loaded model. Every method may raise Failure with the library's text.

    It applies all `flags` (name -> value) that concern the graph, including model_dump and
    get_static_mem_info. Call `finish` after the last run: it writes the profile and the cache of
    algorithms, which takes time.
    """

    def __init__(self, path, flags):
        log("creat mdl model use XPU as default comp node")
        for flag, line in _LOG_LINES.items():
            if flags.get(flag):
                log(line)
        self._flags = flags
        self._library = api.Library(flags)
        if flags.get("verbose"):
            level = self._library.engine.logger
            api.call(level.set_mgb_log_level, level.logging.DEBUG)
        self._cache = self._open_cache()
        self._path = path
        self._graph, self._loaded = api.load(self._library, path, flags)
        if graph_passes.optimizes_with_mdl(flags):
            self._loaded = api.optimize(self._library, self._loaded, flags)
        self._choose_algorithms(self._loaded)
        self._inputs = api.model_inputs(self._library, self._loaded)
        self._arrays = {}
        self._tensors = {}
        self._nodes = {}
        self._watched = []
        self._function = self._profiler = self._profile = None
        self._files_written = False
        self._values = []

    def inputs(self):
        """Return a TensorSpec for each input of the model."""
        return [
            TensorSpec(name, np.dtype(var.dtype).name, api.shape_of(var))
            for name, var in self._inputs.items()
        ]

    def results(self):
        """Return a TensorSpec for each output of the model."""
        return [
            TensorSpec(var.name, np.dtype(var.dtype).name, api.shape_of(var))
            for var in self._loaded
        ]

    def put(self, name, array):
        """Set the input `name`; if its shape changes, the next run compiles the graph again."""
        if name not in self._inputs:
            raise Failure("can't find tensor named {}".format(name), "mgb::AssertionError")
        old = self._arrays.get(name)
        if old is None or old.shape != array.shape:
            self._function = None
        self._arrays[name] = array
        self._tensors.pop(name, None)

    def profile_to(self, path):
        """Profile all following runs; `finish` writes the profile of the last one to `path`."""
        self._profile = path
        self._function = None

    def prepare(self):
        """Compile the graph for the input shapes, unless it is compiled; `forward` calls this."""
        if self._function is None:
            self._write_files()
            self._compile()
        for name, node in self._nodes.items():
            if name not in self._tensors:
                array = self._arrays.get(name)
                self._tensors[name] = api.device_tensor(self._library, array, node)

    def forward(self):
        """Start a run."""
        if self._function is None or len(self._tensors) < len(self._inputs):
            self.prepare()
        self._values = []  # the library may reuse their memory
        for name, node in self._nodes.items():
            node.set_value(self._tensors[name])
        api.call(self._function.execute)

    def wait(self):
        """Wait for the end of the run; return its time, by time.perf_counter()."""
        api.call(self._function.wait)
        ended = time.perf_counter()
        # the next run fails if an output has not been read
        self._values = [api.call(node.get_value) for node in self._watched]
        if self._flags.get("copy_to_host"):
            self._values = [api.call(value.numpy) for value in self._values]
            ended = time.perf_counter()
        return ended

    def outputs(self):
        """Return the outputs of the last run: (variable's id in the graph, name, array)."""
        outputs = []
        for index, value in enumerate(self._values):
            var = self._loaded[index]
            array = value if isinstance(value, np.ndarray) else api.call(value.numpy)
            outputs.append((var.id, var.name, array))
        return outputs

    def finish(self):
        """Write the profile and the cache of fast-run. Call it after the last run."""
        if self._profile and self._profiler is not None:
            text = api.call(self._profiler.get)
            try:
                with open(self._profile, "w", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:
                raise ProfileError(
                    "cannot write the profile {}: {}".format(self._profile, error.strerror)
                )
        if self._cache is not None:
            api.call(self._cache.get, "load_and_run", "")  # the first read opens the file
            api.call(self._cache.flush)

    def _compile(self):
        self._profiler = None  # two profilers on one graph would both record
        shapes = {name: array.shape for name, array in self._arrays.items()}
        outputs, self._nodes = api.with_input_nodes(self._library, self._loaded, shapes)
        self._watched = [api.call(self._library.graph.OutputNode, var) for var in outputs]
        self._tensors = {}
        if self._profile:
            self._profiler = api.call(self._library.runtime.GraphProfiler, self._graph)
        self._function = api.call(self._graph.compile, [node.outputs[0] for node in self._watched])

    def _write_files(self):
        """Write the files of model_dump and get_static_mem_info once, from a second graph."""
        if self._files_written:
            return
        self._files_written = True
        flags = self._flags
        if not (flags.get("model_dump") or flags.get("get_static_mem_info")):
            return
        _, outputs = api.load(self._library, self._path, flags)
        if graph_passes.optimizes_with_mdl(flags):
            outputs = api.optimize(self._library, outputs, flags)
        shapes = {name: array.shape for name, array in self._arrays.items()}
        graph_passes.write_files(self._library, outputs, self._path, flags, shapes)

    def _choose_algorithms(self, outputs):
        flags, strategy = self._flags, self._library.strategy
        if flags.get("full_run"):
            chosen = strategy.PROFILE
        elif flags.get("fast_run"):
            chosen = strategy.PROFILE | strategy.OPTIMIZED
        elif flags.get("fast_run_algo_policy"):
            chosen = strategy.PROFILE | strategy.HEURISTIC  # from the cache, else by heuristics
        else:
            chosen = strategy.HEURISTIC
        if flags.get("reproducible"):
            chosen = chosen | strategy.REPRODUCIBLE
        api.call(self._library.runtime.modify_opr_algo_strategy_inplace, outputs, chosen)

    def _open_cache(self):
        """Open the cache of fast-run in the file of fast_run_algo_policy; None without the flag."""
        path = self._flags.get("fast_run_algo_policy")
        if not path:
            return None
        try:
            with open(path, "ab"):  # the library opens existing files only
                pass
        except OSError as error:
            raise Failure("cannot write the cache {}: {}".format(path, error.strerror))
        cache = self._library.runtime.PersistentCache()
        cache.add_config("in-file", {"path": path}, "", "cannot read {}".format(path))
        cache.reg()
        try:
            cache.get("load_and_run", "")
        except RuntimeError as error:
            raise library_failure(str(error))
        return cache
