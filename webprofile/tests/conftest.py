"""The site that the end-to-end and the browser tests share."""

from collections.abc import Iterator

import pytest

from agent.conftest import find_megengine_python
from webprofile.embedded.demo import Visitor
from webprofile.tests.site import Site, running_site


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, megengine_python: str) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as running:
        with running.login() as visitor:
            visitor.device()  # online
        yield running


@pytest.fixture(scope="session")
def visitor(site: Site) -> Iterator[Visitor]:
    with site.login() as visitor:
        yield visitor
