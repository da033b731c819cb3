"""The one exception of the analysis."""

from typing import Literal

from profiles.formats.errors import CodedError

AnalysisCode = Literal[
    "device_total_zero",
    "device_total_zero_opencl",
    "aggregate_missing",  # by type, but no aggregate was named
    "second_of_kind",  # a file where another of its kind is shown already
    "bad_shapes",  # of a row that is shown: no lists of lists
    "text_large",  # a text that nobody could read
    "bad_pattern",  # of names: invalid, or too much for the engine that matches it
    "unknown_column",  # to order by
    "unknown_word",  # a side, an aggregate or an end of times that does not exist
]


class AnalysisError(CodedError[AnalysisCode]):
    """A well-formed profile that cannot be analysed, or a question that cannot be answered."""
