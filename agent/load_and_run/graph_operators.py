"""Which operators a model has. A child looks: most formats hold numbers instead of their names."""

import json
import os
import shutil
import tempfile

from load_and_run import graph_child
from load_and_run import graph_library as api
from load_and_run.errors import Failure


def operator_types(model):
    """Sorted types of the operators in the file, such as "ConvolutionForward". Raises Failure."""
    folder = tempfile.mkdtemp(prefix="load_and_run-")
    try:
        path = os.path.join(folder, "types.json")
        # the library can load the model whatever the run is to do with it
        graph_child.run("operators", {"model": model, "path": path}, folder)
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise Failure("cannot tell which operators the model has: {}".format(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def work(job):
    """In the child: write the types to the file `path` of the job."""
    library = api.Library({"cpu": True})
    _, outputs = api.load(library, job["model"], {})
    types = sorted({operator.type for operator in api.call(library.tools.get_oprs_seq, outputs)})
    try:
        with open(job["path"], "w", encoding="utf-8") as file:
            json.dump(types, file)
    except OSError as error:
        raise Failure("cannot write {}: {}".format(job["path"], error))
