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
    """Stands in for a package, whose functions import it when they are called."""

    #: packages that MegEngine checks
    working_set = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments, **keywords):
            package = importlib.import_module(self.__name__)
            return getattr(package, name)(*arguments, **keywords)

        return call


def call_without_unused(function, argument):
    """Call a function that imports MegEngine; later imports get the packages themselves."""
    missing = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update((name, _Later(name)) for name in missing)
    try:
        function(argument)
    finally:
        for name in missing:
            del sys.modules[name]
