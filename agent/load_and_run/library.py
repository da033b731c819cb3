"""The one part that touches megenginelite."""

import ctypes
import logging
import mmap
import os
import time

from load_and_run import settings
from load_and_run.dumps import output_ids
from load_and_run.errors import ModelError, NoMegEngine, library_failure
from load_and_run.flags import FLAGS
from load_and_run.inputs import TensorSpec

# Algorithms that fast-run would find stay in this process: no files in the user's home.
os.environ.setdefault("MGE_FASTRUN_CACHE_TYPE", "MEMORY")
# megenginelite logs each error before it raises it; the failure is printed once, by errors.die.
logging.getLogger().addHandler(logging.NullHandler())


def import_library():
    """megenginelite. Raises NoMegEngine with the reason if this interpreter has none."""
    try:
        import megenginelite
    except Exception as error:  # its import runs checks that raise whatever they like
        raise NoMegEngine("this Python cannot import MegEngine: {}".format(error))
    return megenginelite


def call(function, *arguments):
    """What `function` returns; an error of the library becomes the Failure that it means."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise library_failure(str(error))


class ModelMemory(object):
    """A model file in memory, which every network loaded from it uses in place."""

    def __init__(self, path):
        try:
            with open(path, "rb") as file:
                # a private copy of the pages that are written to, none of the others
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ModelError("failed to open {}: {}".format(path, error.strerror))
        self.length = len(self._map)
        self.bytes = (ctypes.c_char * self.length).from_buffer(self._map)


class Network(object):
    """A loaded model. Every call may raise Failure with the library's own words."""

    def __init__(self, path, flags=None, memory=None):
        self._lite = import_library()
        flags = flags or {name: default for name, (_, default, _) in FLAGS.items()}
        self._ids = {}
        self._memory = memory  # outlives the network, which reads parameters there
        self._network = self._call(settings.make_network, self._lite, flags)
        api, handle = self._network._api, self._network._network
        if memory:
            api.LITE_load_model_from_mem.argtypes[1:] = [ctypes.c_void_p, ctypes.c_size_t]
            self._call(
                api.LITE_load_model_from_mem, handle, ctypes.addressof(memory.bytes), memory.length
            )
        else:
            # by path, since LiteNetwork.load holds the file's bytes three times over
            self._call(api.LITE_load_model_from_path, handle, os.fsencode(path))
        self._kept = self._callback = None
        self._ended = []  # when the run ended, once the library says so itself
        if flags["bin_out_dump"]:
            self._ids = output_ids(path)

    def configure(self, flags):
        """Set what megenginelite takes only once the model is loaded."""
        self._kept = self._call(settings.after_load, self._lite, self._network, flags)

    def inputs(self):
        """What the model wants, one TensorSpec for each input."""
        names = self._call(self._network.get_all_input_name) or []
        return [self._wanted(name, self._tensor(name)) for name in names]

    def results(self):
        """What the outputs are so far, one TensorSpec each; shapes may be unknown before a run."""
        return [self._wanted(name, tensor) for name, tensor in self._output_tensors()]

    def outputs(self):
        """(variable's id, name, array) of each output of the last run."""
        return [
            (self._ids.get(name, 0), name, self._call(tensor.to_numpy))
            for name, tensor in self._output_tensors()
        ]

    def _output_tensors(self):
        phase = self._lite.LiteTensorPhase.LITE_OUTPUT
        names = self._call(self._network.get_all_output_name) or []
        return [(name, self._call(self._network.get_io_tensor, name, phase)) for name in names]

    @staticmethod
    def _wanted(name, tensor):
        layout = tensor.layout
        return TensorSpec(name, layout.dtype.__name__, layout.shapes)

    def _tensor(self, name):
        from megenginelite import tensor

        # The wheel's table has no float16, which LiteTensor needs for nothing but its width.
        half = self._lite.LiteDataType.LITE_HALF
        tensor._lite_dtypes_to_ctype.setdefault(half, tensor.c_ushort)
        return self._call(self._network.get_io_tensor, name, self._lite.LiteTensorPhase.LITE_INPUT)

    def put(self, name, array):
        """Copy `array` (C order, the input's own type) into the input `name`."""
        target = self._tensor(name)
        # LiteLayout takes the type from its number: from an array's dtype it knows no float16.
        kind = self._lite.LiteDataType(target.layout.data_type)
        layout = self._lite.LiteLayout(array.shape, kind)
        target.layout = layout
        source = self._call(self._lite.LiteTensor, layout)
        self._call(
            source._api.LITE_reset_tensor_memory, source._tensor, array.ctypes.data, array.nbytes
        )
        self._call(target.copy_from, source)

    def dump_text_to(self, path):
        """Write what every operator reads and makes to `path`, in each run."""
        self._call(self._network.io_txt_dump, path)

    def dump_binary_to(self, folder):
        """Write every variable to a file in `folder`, in each run."""
        self._call(self._network.io_bin_dump, folder)

    def profile_to(self, path):
        """Write a profile to `path` after each run (the last one stays).

        `wait` writes it, which takes as long as the run of a small model: so the library's own
        word that the run has ended is noted, and the writing belongs to no iteration.
        """
        from megenginelite.network import LiteFinishCallback

        ended = self._ended  # not self: the network goes as soon as nobody else holds it

        def note_end(*_):
            ended.append(time.perf_counter())
            return 0

        self._call(self._network.enable_profile_performance, path)
        self._callback = LiteFinishCallback(note_end)  # the library keeps no reference
        self._call(
            self._network._api.LITE_set_finish_callback, self._network._network, self._callback
        )

    def prepare(self):
        """Nothing: the graph is compiled by then."""

    def finish(self):
        """Nothing: the profile is written with each run."""

    def forward(self):
        """Start a run; on CPU in place this is the whole run."""
        del self._ended[:]
        self._call(self._network.forward)

    def wait(self):
        """Wait for the end of the run; return when that was, a time.perf_counter()."""
        self._call(self._network.wait)
        return self._ended[-1] if self._ended else time.perf_counter()

    @staticmethod
    def _call(function, *arguments):
        return call(function, *arguments)
