"""Configure the device that a model runs on: CPU modes, threads and their cores, or CUDA."""

import ctypes
import os
import re

from load_and_run.errors import FlagError, log

_AFFINITY = ctypes.CFUNCTYPE(None, ctypes.c_int)


def is_amd():
    """Return whether the CPU is made by AMD: MegEngine's MKL-DNN kernels fail there."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            return re.search(rb"vendor_id\s*:\s*AuthenticAMD", file.read(1 << 16)) is not None
    except OSError:  # not Linux: the vendor is unknown
        return False


def threads(flags):
    """Return the requested number of threads, 0 if none is requested."""
    return max(flags["multithread"], flags["multithread_default"], 0)


def core_ids(flags):
    """Return the cores of --multi_thread_core_ids, one per thread. Raises FlagError."""
    text = flags["multi_thread_core_ids"]
    if not text:
        return []
    cores = [int(number) for number in text.split(",")]
    allowed = os.sched_getaffinity(0)
    for core in cores:
        if core not in allowed:
            raise FlagError(
                "ERROR: --multi_thread_core_ids={}: this process can use only cores {}".format(
                    text, ",".join(str(core) for core in sorted(allowed))
                )
            )
    return cores


def announce(flags):
    """Log the device in load_and_run's words."""
    if flags["cuda"]:
        log("using cuda device\n")
    elif flags["cpu_default"]:
        log("using cpu default device\n")
    elif flags["multithread"] > 0:
        log("using multithread(threads number:{}) device\n".format(threads(flags)))
    elif flags["multithread_default"] > 0:
        log("using multithread default(threads number:{}) device\n".format(threads(flags)))
    elif flags["cpu"] or not (flags["mdl"] or flags["disable_mem_opt"]):
        log("using cpu device\n")  # the graph interface uses the device that the model names


def pin_threads(network, flags):
    """Bind each thread of a loaded network to its core.

    Return a callback that the caller must keep referenced while `network` is in use, or None.
    """
    cores = core_ids(flags)
    if not cores:
        return None
    log("set multi thread core ids:{}\n".format(",".join(str(core) for core in cores)))

    def pin(thread):
        os.sched_setaffinity(0, [cores[thread]])  # 0: the calling thread

    callback = _AFFINITY(pin)
    function = network._api.LITE_set_runtime_thread_affinity  # the wheel does not declare its types
    function.argtypes = [ctypes.c_void_p, _AFFINITY]
    function.restype = ctypes.c_int
    if function(network._network, callback):
        last = network._api.LITE_get_last_error
        last.restype = ctypes.c_char_p
        raise RuntimeError((last() or b"").decode("utf-8", "replace"))
    return callback
