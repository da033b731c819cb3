"""Why a runtime could not be made."""


class RuntimeProblem(Exception):
    """Base; its text is meant for the person at the terminal."""


class NoPython(RuntimeProblem):
    """No Python that MegEngine supports; the text has two lines and says what to install."""


class InstallFailed(RuntimeProblem):
    """A Python is there, but MegEngine did not get into it."""


class NoWheel(InstallFailed):
    """There is no wheel of this version for this Python and machine."""
