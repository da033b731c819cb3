"""The one exception of the analysis."""

from typing import Literal

AnalysisCode = Literal["device_total_zero", "device_total_zero_opencl"]


class AnalysisError(ValueError):
    """A well-formed profile that cannot be analysed.

    `code` is for programs and translations; `detail` is an English sentence.
    """

    def __init__(self, code: AnalysisCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail
