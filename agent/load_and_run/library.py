"""The one part that touches megenginelite."""

import logging
import os

from load_and_run.errors import NoMegEngine, library_failure
from load_and_run.inputs import Wanted

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


class Network(object):
    """A loaded model. Every call may raise Failure with the library's own words."""

    def __init__(self, path, inplace=False, verbose=False):
        self._lite = import_library()
        if verbose:
            self._lite.set_log_level(self._lite.LiteLogLevel.DEBUG)
        self._network = self._lite.LiteNetwork()
        if inplace:
            self._call(self._network.enable_cpu_inplace_mode)
        # by path, since LiteNetwork.load holds the file's bytes three times over
        api = self._network._api
        self._call(api.LITE_load_model_from_path, self._network._network, os.fsencode(path))

    @property
    def version(self):
        return self._lite.version

    def inputs(self):
        """What the model wants, one Wanted for each input."""
        names = self._call(self._network.get_all_input_name) or []
        return [self._wanted(name) for name in names]

    def _wanted(self, name):
        layout = self._tensor(name).layout
        return Wanted(name, layout.dtype.__name__, layout.shapes)

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

    def profile_to(self, path):
        """Write a profile to `path` after each run (the last one stays)."""
        self._call(self._network.enable_profile_performance, path)

    def forward(self):
        """Start a run; on CPU in place this is the whole run."""
        self._call(self._network.forward)

    def wait(self):
        self._call(self._network.wait)

    @staticmethod
    def _call(function, *arguments):
        try:
            return function(*arguments)
        except RuntimeError as error:
            raise library_failure(str(error))
