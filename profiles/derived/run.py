"""What the files of one run say together: operators over passes, and what stands beside them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.merging import (
    PassTimes,
    aligned,
    leading,
    merged_data,
    without_operators,
)
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.first_look import FileKind
from profiles.parsers.graph import ExecutedGraph
from profiles.parsers.graph_json import empty_graph


def second_of_kind() -> AnalysisError:
    """What is said of a file whose kind another file of the run has already."""
    return AnalysisError(
        "second_of_kind", "Another file of this kind is shown; one run has one of them."
    )


class Run:
    """Filled file by file; a file that cannot be used leaves it as it was.

    left_out: what could not even be fetched
    lead: operators of the first pass, whose graph is shown and which the others are compared with
    leads: the kind of file that the passes are of
    beside: as `ProfileData.beside`
    company: the first file of each kind, for kinds that are read together
    told: hears how many bytes of a file were read, of how many
    """

    def __init__(
        self,
        left_out: Sequence[LeftOut],
        told: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        self._left_out = tuple(left_out)
        self.told = told
        self.lead: ProfileColumns | None = None
        self.leads: FileKind | None = None
        self.beside: dict[str, bytes] = {}
        self.company: dict[FileKind, Path] = {}
        self._graph = empty_graph(())
        self._passes: list[PassTimes] = []

    @property
    def is_empty(self) -> bool:
        """Whether no file said anything."""
        return self.lead is None and not self.beside

    def add_pass(
        self,
        kind: FileKind,
        name: str,
        columns: ProfileColumns,
        graph: Callable[[], ExecutedGraph],
    ) -> None:
        """Add a profiled pass; `graph` is called for the first one. Raises OtherGraphError."""
        if self.lead is None:
            self._graph = graph()
            self._passes.append(leading(name, columns))
            self.lead, self.leads = columns, kind
        else:
            self._passes.append(aligned(self.lead, name, columns))

    def add_beside(self, kind: FileKind, said: bytes) -> None:
        """Add what a file says beside operators.

        Raises AnalysisError second_of_kind where another file of its kind did before.
        """
        if kind in self.beside:
            raise second_of_kind()
        self.beside[kind] = said

    def data(self, unlike: Sequence[LeftOut]) -> ProfileData:
        """Return all of it; `unlike` are the files that could not be used."""
        left_out = [*self._left_out, *unlike]
        if self.lead is None:
            found = without_operators(self._graph, left_out)
        else:
            found = merged_data(self.lead, self._passes, self._graph, left_out)
        return replace(found, beside=self.beside)
