"""The client of the site's API: class `Site` for Python, its errors, and the `webprofile` command.

`pip install .` installs this package and `webprofile.terminal` without the server. The server
imports only `webprofile.client.batchfile` from this package.
"""

from typing import TYPE_CHECKING, Any

from webprofile.client.batchfile import BatchError as BatchError
from webprofile.client.errors import ClientError as ClientError
from webprofile.client.errors import ProblemError as ProblemError
from webprofile.client.errors import UnreachableError as UnreachableError
from webprofile.client.errors import UsageError as UsageError
from webprofile.client.version import __version__ as __version__

if TYPE_CHECKING:
    from webprofile.client.site import Site as Site


def __getattr__(name: str) -> Any:
    """Import `Site` on first use: the server imports this package but has no HTTP client."""
    if name == "Site":
        from webprofile.client.site import Site

        return Site
    raise AttributeError(name)
