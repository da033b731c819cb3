"""Import MegEngine without the packages that no run needs."""

import contextlib
import importlib
import sys
import types

#: what MegEngine imports for files on other machines, and for a check of the installed packages
#: that the agent has made; with all that they import, they take longer than MegEngine itself
_UNUSED = ("megfile", "pkg_resources")


class _Empty(types.ModuleType):
    """Replacement for a package of _UNUSED; the names that MegEngine imports from it are empty.

    If another package needs it then, it is imported. `agent/script_runner` has a similar class,
    because the sandbox of scripts shows no other folder of the agent.
    """

    #: packages that MegEngine checks
    working_set = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("smart_"):  # functions of megfile, which no run calls
            return ()
        self.leave()
        return getattr(importlib.import_module(self.__name__), name)

    def leave(self):
        """Let the next import get the package."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextlib.contextmanager
def without_unused():
    """Let the packages of _UNUSED be empty as long as the context lasts."""
    places = [_Empty(name) for name in _UNUSED if name not in sys.modules]
    sys.modules.update((place.__name__, place) for place in places)
    try:
        yield
    finally:
        for place in places:
            place.leave()
