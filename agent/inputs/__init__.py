"""What is done with a run's inputs before load_and_run sees them, for every kind of runtime.

A compiled load_and_run takes a wrong file for a right one: it ignores Fortran and big-endian order,
misreads common pictures, overruns memory at a JSON list that is too long and dies at a single
number. So every input becomes an npy file that all versions read alike, and what cannot become one
is refused with a sentence. Needs numpy; never unpickles.
"""

from agent.inputs.prepare import prepare_inputs
from agent.inputs.problems import InputError
from agent.inputs.specs import (
    File,
    InputSpec,
    Kind,
    Literal,
    Prepared,
    Random,
    Wanted,
    wanted_of,
)

__all__ = [
    "File",
    "InputError",
    "InputSpec",
    "Kind",
    "Literal",
    "Prepared",
    "Random",
    "Wanted",
    "prepare_inputs",
    "wanted_of",
]
