"""Errors of the analysis."""

from typing import Literal

from profiles.formats.errors import CodedError

AnalysisCode = Literal[
    "device_total_zero",
    "device_total_zero_opencl",
    "aggregate_missing",  # grouping by type without an aggregate
    "second_of_kind",  # another file of the same kind is already shown
    "bad_shapes",  # shapes of a selected row are not lists of lists
    "text_large",  # the text output is too large to be readable
    "bad_pattern",  # name pattern is invalid or exceeds the limits of the regex engine
    "unknown_column",  # unknown sort key
]


class AnalysisError(CodedError[AnalysisCode]):
    """A valid profile that cannot be analysed, or a query that cannot be evaluated."""
