"""What the runs need of a model in the graph interface, beyond what GraphNetwork has."""

import numpy as np
from load_and_run import graph_library, graph_network
from load_and_run.inputs import Wanted
from load_and_run.log import log

#: line in the log
_LINES = {
    "no_sanity_check": "disable var sanity check optimization",
    "disable_mem_opt": "disable memory optimization",
    "fast_run": "enable fast-run strategy for algo profile",
    "full_run": "enable full-run strategy for algo profile",
    "reproducible": "enable reproducible strategy for algo profile",
    "weight_preprocess": "enable weight-preprocess optimization",
    "enable_fuse_preprocess": "enable fuse-preprocess optimization",
}


class MdlNetwork(graph_network.GraphNetwork):
    def __init__(self, path, flags):
        log("creat mdl model use XPU as default comp node")
        for flag, line in _LINES.items():
            if flags[flag]:
                log(line)
        super().__init__(path, flags)

    def results(self):
        """What the outputs are, one Wanted each."""
        return [
            Wanted(var.name, np.dtype(var.dtype).name, graph_library.shape_of(var))
            for var in self._loaded
        ]
