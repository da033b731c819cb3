"""What to do about failures that a flag causes, added to the library's own words."""

from load_and_run import rules
from load_and_run.errors import Failure
from load_and_run.flag_table import LAYOUTS, VARIABLE_DUMPS

#: (words of the library, flags one of which must be set, advice)
_HINTS = (
    (
        "to be 4 dim",
        LAYOUTS,
        "the layout does not fit batch normalization; add --optimize_for_inference, which folds it",
    ),
    (
        "invalid conv format",
        ("enable_nhwcd4",),
        "the layout nhwcd4 is for OpenCL, which the wheel does not have; leave it out",
    ),
    (
        "can not handle dtype Byte",
        VARIABLE_DUMPS,
        "MegEngine cannot write the workspace of batch normalization as text; "
        "add --optimize_for_inference, which folds it",
    ),
    (
        "is_contiguous()",
        ("bin_io_dump",),
        "MegEngine cannot write a variable that is a view of another; "
        "add --optimize_for_inference, which folds batch normalization, or use --bin_out_dump",
    ),
    (
        "out of valid range [0, 0)",
        ("cuda",),
        "MegEngine finds no CUDA device here; leave out --cuda",
    ),
)


def explain(failure, flags):
    """The failure, with advice if one of the flags is known to cause it."""
    for words, names, advice in _HINTS:
        if words in str(failure) and any(rules.given(flags, name) for name in names):
            return Failure("{}\n({})".format(advice, failure), failure.kind)
    return failure
