"""Errors that parsers raise for unusable files."""

from typing import Generic, Literal, TypeVar

FormatCode = Literal[
    "empty",  # nothing but whitespace
    "too_large",  # more bytes than the caller allows
    "not_utf8",
    "utf16",  # UTF-16 or UTF-32
    "not_json",
    "too_deep",  # brackets nested too deeply for Python's stack
    "not_a_profile",  # JSON of another format
    "not_svg",  # not XML, or not an SVG
    "svg_refused",  # a document type with declarations, or excessive nesting
    "no_memory_flow",  # an SVG without tensors of MegEngine
    "trace_without_anything",  # a MegEngine trace without any calls
    "missing_key",
    "bad_value",
    "bad_columns",  # an archive that `to_archive` did not write
    "graph_unreadable",
    "too_heavy",  # reading exceeds the site's limits of memory or time
    "static_memory_missing",  # a section of a memory plan is missing
    "static_memory_bad",  # an invalid number or text in a memory plan
    "static_memory_twice",  # a duplicate id of a chunk or operator
    "static_memory_operator",  # a chunk refers to unknown operators, or operator ids have a gap
    "static_memory_many",  # too many chunks or operators
    "graph_alone",  # the graph.json of a memory plan, without the plan
    "graph_of_another",  # a graph.json that does not belong to the plan
    "static_memory_zip",  # the file that a device packed is not an archive with a plan
]


Code = TypeVar("Code", bound=str)


class CodedError(ValueError, Generic[Code]):
    """Error with a `code` for programs and translations, and a `detail`: a sentence in English.

    Both are in `args`, so that the exception can be pickled.
    """

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class ProfileFormatError(CodedError[FormatCode]):
    """A file cannot be read as the profile format that it claims to be."""
