"""Where a model runs: the CPU in its kinds, or CUDA."""

import ctypes
import os
import re

from load_and_run.errors import FlagError
from load_and_run.log import log

_AFFINITY = ctypes.CFUNCTYPE(None, ctypes.c_int)


def is_amd():
    """Whether this CPU is made by AMD, on which MegEngine's MKL-DNN kernels fail."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            return re.search(rb"vendor_id\s*:\s*AuthenticAMD", file.read(1 << 16)) is not None
    except OSError:  # no Linux: nothing is known, nothing is refused
        return False


def threads(flags):
    """The number of threads asked for, 0 if none."""
    return max(flags["multithread"], flags["multithread_default"], 0)


def core_ids(flags):
    """The cores of --multi_thread_core_ids, in the order of the threads. Raises FlagError."""
    text = flags["multi_thread_core_ids"]
    if not text:
        return []
    if not threads(flags):
        raise FlagError(
            "ERROR: --multi_thread_core_ids needs --multithread or --multithread_default"
        )
    if not re.match(r"[0-9]+(,[0-9]+)*\Z", text):
        raise FlagError("ERROR: --multi_thread_core_ids={}: write it as 0,1".format(text))
    cores = [int(number) for number in text.split(",")]
    if len(cores) != threads(flags):
        raise FlagError(
            "ERROR: --multi_thread_core_ids={}: {} cores for {} threads".format(
                text, len(cores), threads(flags)
            )
        )
    allowed = os.sched_getaffinity(0)
    for core in cores:
        if core not in allowed:
            raise FlagError(
                "ERROR: --multi_thread_core_ids={}: this process may use the cores {}".format(
                    text, ",".join(str(core) for core in sorted(allowed))
                )
            )
    return cores


def announce(flags):
    """Log the device as load_and_run does."""
    if flags["cuda"]:
        log("using cuda device\n")
    elif flags["cpu_default"]:
        log("using cpu default device\n")
    elif flags["multithread"] > 0:
        log("using multithread(threads number:{}) device\n".format(threads(flags)))
    elif flags["multithread_default"] > 0:
        log("using multithread default(threads number:{}) device\n".format(threads(flags)))
    elif flags["cpu"] or not (flags["mdl"] or flags["disable_mem_opt"]):
        log("using cpu device\n")  # the graph interface takes the device that the model names


def config(lite, options, flags):
    """The LiteConfig of these flags, with `options` (LiteOptions)."""
    kind = lite.LiteDeviceType
    return lite.LiteConfig(kind.LITE_CUDA if flags["cuda"] else kind.LITE_CPU, options)


def before_load(network, flags):
    """Set the kind of CPU; megenginelite takes it only before the model is loaded."""
    if flags["cpu_default"] or flags["multithread_default"] > 0:
        network.enable_cpu_inplace_mode()
    if threads(flags):
        network.threads_number = threads(flags)


def pin_threads(network, flags):
    """Bind each thread to its core, once loaded. Returns what must live as long as `network`."""
    cores = core_ids(flags)
    if not cores:
        return None
    log("set multi thread core ids:{}\n".format(",".join(str(core) for core in cores)))

    def pin(thread):
        os.sched_setaffinity(0, [cores[thread]])  # 0: the thread that calls this

    callback = _AFFINITY(pin)
    function = network._api.LITE_set_runtime_thread_affinity  # the wheel declares no types for it
    function.argtypes = [ctypes.c_void_p, _AFFINITY]
    function.restype = ctypes.c_int
    if function(network._network, callback):
        last = network._api.LITE_get_last_error
        last.restype = ctypes.c_char_p
        raise RuntimeError((last() or b"").decode("utf-8", "replace"))
    return callback
