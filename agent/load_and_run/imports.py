"""Import MegEngine without the packages that no run needs."""

import contextlib
import sys
import types

#: what MegEngine imports for files on other machines, and for a check of the installed packages
#: that the agent has made; with all that they import, they take longer than MegEngine itself
_UNUSED = ("megfile", "pkg_resources")


class _Empty(types.ModuleType):
    """Stands in for a module of _UNUSED; its attributes are empty tuples."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return ()


@contextlib.contextmanager
def without_unused():
    """Let the packages of _UNUSED be empty as long as the context lasts."""
    empty = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update((name, _Empty(name)) for name in empty)
    try:
        yield
    finally:
        for name in empty:
            del sys.modules[name]
