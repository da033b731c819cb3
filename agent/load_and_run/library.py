"""Load and run a model with megenginelite, which only this module imports."""

import ctypes
import logging
import mmap
import os
import time

from load_and_run import graph_passes, settings
from load_and_run.errors import ModelError, NoMegEngine, library_failure
from load_and_run.files import skip_test_header
from load_and_run.imports import without_unused
from load_and_run.inputs import TensorSpec

# Keep the algorithms that fast-run selects in memory: no files in the user's home.
os.environ.setdefault("MGE_FASTRUN_CACHE_TYPE", "MEMORY")
# megenginelite logs each error before it raises it; errors.die prints the failure.
logging.getLogger().addHandler(logging.NullHandler())


def import_library():
    """Return the module megenginelite. Raises NoMegEngine, with the reason, if it is missing."""
    try:
        with without_unused():
            import megenginelite
    except Exception as error:  # checks at import raise exceptions of any class
        raise NoMegEngine("this Python cannot import MegEngine: {}".format(error))
    return megenginelite


def call(function, *arguments):
    """Call a function of the library; convert its RuntimeError to a Failure."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise library_failure(str(error))


class ModelMemory(object):
    """The graph of a model file in memory, shared by all networks that are loaded from it."""

    def __init__(self, path):
        try:
            with open(path, "rb") as file:
                offset = skip_test_header(file)
                if offset:
                    # a copy: the library requires the alignment of the graph's start
                    self._map = mmap.mmap(-1, os.fstat(file.fileno()).st_size - offset)
                    file.readinto(self._map)
                else:
                    # copy-on-write: only pages that are modified are copied
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ModelError("failed to open {}: {}".format(path, error.strerror))
        self.length = len(self._map)
        self.bytes = (ctypes.c_char * self.length).from_buffer(self._map)


class Network(object):
    """A loaded model. Every method may raise Failure with the library's text."""

    def __init__(self, path, flags, memory=None):
        self._lite = import_library()
        self._ids = {}
        self._memory = memory  # must outlive the network, which reads its parameters there
        self._network = call(settings.make_network, self._lite, flags)
        api, handle = self._network._api, self._network._network
        if memory:
            api.LITE_load_model_from_mem.argtypes[1:] = [ctypes.c_void_p, ctypes.c_size_t]
            call(
                api.LITE_load_model_from_mem, handle, ctypes.addressof(memory.bytes), memory.length
            )
        else:
            # by path, because LiteNetwork.load keeps three copies of the file in memory
            call(api.LITE_load_model_from_path, handle, os.fsencode(path))
        self._affinity_callback = self._finish_callback = None
        self._end_times = []  # end of the run, if the library reports it
        if flags["bin_out_dump"]:
            self._ids = graph_passes.output_ids(path)

    def configure(self, flags):
        """Apply the flags that megenginelite accepts only after the model is loaded."""
        self._affinity_callback = call(settings.after_load, self._lite, self._network, flags)

    def inputs(self):
        """Return a TensorSpec for each input of the model."""
        names = call(self._network.get_all_input_name) or []
        return [self._spec(name, self._tensor(name)) for name in names]

    def results(self):
        """Return a TensorSpec for each output; shapes may be unknown before the first run."""
        return [self._spec(name, tensor) for name, tensor in self._output_tensors()]

    def outputs(self):
        """Return the outputs of the last run: (variable's id, name, array)."""
        return [
            (self._ids.get(name, 0), name, call(tensor.to_numpy))
            for name, tensor in self._output_tensors()
        ]

    def _output_tensors(self):
        phase = self._lite.LiteTensorPhase.LITE_OUTPUT
        names = call(self._network.get_all_output_name) or []
        return [(name, call(self._network.get_io_tensor, name, phase)) for name in names]

    @staticmethod
    def _spec(name, tensor):
        layout = tensor.layout
        return TensorSpec(name, layout.dtype.__name__, layout.shapes)

    def _tensor(self, name):
        from megenginelite import tensor

        # The wheel's table lacks float16; LiteTensor needs only the width of the type.
        half = self._lite.LiteDataType.LITE_HALF
        tensor._lite_dtypes_to_ctype.setdefault(half, tensor.c_ushort)
        return call(self._network.get_io_tensor, name, self._lite.LiteTensorPhase.LITE_INPUT)

    def put(self, name, array):
        """Copy `array` (C order, dtype of the input) into the input `name`."""
        target = self._tensor(name)
        # by the number of the dtype, because LiteLayout does not recognize numpy's float16
        kind = self._lite.LiteDataType(target.layout.data_type)
        layout = self._lite.LiteLayout(array.shape, kind)
        target.layout = layout
        source = call(self._lite.LiteTensor, layout)
        call(source._api.LITE_reset_tensor_memory, source._tensor, array.ctypes.data, array.nbytes)
        call(target.copy_from, source)

    def dump_text_to(self, path):
        """Write the inputs and outputs of all operators to the file `path`, in each run."""
        call(self._network.io_txt_dump, path)

    def dump_binary_to(self, folder):
        """Write each variable to its own file in `folder`, in each run."""
        call(self._network.io_bin_dump, folder)

    def profile_to(self, path):
        """Write a profile to `path` after each run; each run overwrites it.

        The library writes it in `wait`, which takes as long as a run of a small model. So a
        callback records the end of the run, and the time for writing counts for no iteration.
        """
        from megenginelite.network import LiteFinishCallback

        end_times = self._end_times  # the callback must not keep a reference to self

        def record_end(*_):
            end_times.append(time.perf_counter())
            return 0

        call(self._network.enable_profile_performance, path)
        self._finish_callback = LiteFinishCallback(record_end)  # the library keeps no reference
        call(
            self._network._api.LITE_set_finish_callback,
            self._network._network,
            self._finish_callback,
        )

    def prepare(self):
        """Do nothing: the graph is compiled in the first run. See GraphNetwork."""

    def finish(self):
        """Do nothing: the profile is written in each run. See GraphNetwork."""

    def forward(self):
        """Start a run; in CPU in-place mode this executes the whole run."""
        del self._end_times[:]
        call(self._network.forward)

    def wait(self):
        """Wait for the end of the run; return its time, by time.perf_counter()."""
        call(self._network.wait)
        return self._end_times[-1] if self._end_times else time.perf_counter()
