"""What a parser raises for a file that it cannot use."""

from typing import Generic, Literal, TypeVar

FormatCode = Literal[
    "empty",  # no byte but white space
    "too_large",  # more bytes than the caller allows
    "not_utf8",
    "not_json",
    "too_deep",  # brackets nested beyond what Python's stack takes
    "not_a_profile",  # JSON, but of something else
    "not_svg",  # no XML, or not a picture
    "svg_refused",  # a document type that declares something, or nesting without end
    "no_memory_flow",  # a picture, but without a tensor of MegEngine's
    "trace_without_anything",  # a trace of MegEngine's, in which nothing was called
    "missing_key",
    "bad_value",
    "bad_columns",  # not what `to_archive` wrote
    "graph_unreadable",
    "too_heavy",  # reading it takes more memory or time than the site gives
    "static_memory_missing",  # a part of a memory plan
    "static_memory_bad",  # a number or text of a memory plan that cannot be
    "static_memory_twice",  # an id of a chunk or operator
    "static_memory_operator",  # a chunk of operators that the plan does not have, or a gap in them
    "static_memory_many",  # chunks or operators
    "graph_alone",  # the graph.json of a memory plan, without the plan
    "graph_of_another",  # a graph.json that does not belong to the plan
    "static_memory_zip",  # what a device left is no archive with a plan in it
]


Code = TypeVar("Code", bound=str)


class CodedError(ValueError, Generic[Code]):
    """`code` is for programs and translations; `detail` is a sentence that names the cause.

    Both are in `args`, so the exception can be pickled.
    """

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class ProfileFormatError(CodedError[FormatCode]):
    """A file that is not the profile it claims to be."""
