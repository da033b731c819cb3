"""Import MegEngine without two packages that take a third of the time and that few programs use.

The module's name is chosen so that no module of a program has it; see `__main__`.
"""

import importlib
import sys
import types

#: for downloads, which the sandbox does not permit; for a check of the installed packages, which
#: the agent has made
_UNUSED = ("megfile", "pkg_resources")


class _Later(types.ModuleType):
    """Stands in for a package of _UNUSED, which is imported when it is used."""

    #: packages that MegEngine checks
    working_set = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if not name.startswith("smart_"):
            return getattr(self._package(), name)

        # a function of megfile, which MegEngine imports by its name
        def call(*arguments, **keywords):
            return getattr(self._package(), name)(*arguments, **keywords)

        return call

    def _package(self):
        self.leave()
        return importlib.import_module(self.__name__)

    def leave(self):
        """Let the next import get the package."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


def call_without_unused(function, argument):
    """Call a function that imports MegEngine; later imports get the packages themselves."""
    places = [_Later(name) for name in _UNUSED if name not in sys.modules]
    sys.modules.update((place.__name__, place) for place in places)
    try:
        function(argument)
    finally:
        for place in places:
            place.leave()
