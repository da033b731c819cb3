"""Fixtures that start sites for end-to-end, browser and permission tests."""

import uuid
from collections.abc import Iterator

import pytest
from django.test import override_settings

from testdata import DATA
from webprofile.operations.devserver import parts
from webprofile.operations.devserver.demo import Visitor
from webprofile.storage import storage as object_store
from webprofile.tests.cluster import Cluster, balancer, write_replayer
from webprofile.tests.permission_site import PermissionSite, rolled_back
from webprofile.tests.site import EmbeddedSite, running_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, megengine_python: str) -> Iterator[EmbeddedSite]:
    """The embedded site with an online device, at log level DEBUG."""
    with running_site(tmp_path_factory.mktemp("site"), LOG_LEVEL="DEBUG") as running:
        with running.login() as visitor:
            visitor.device()  # waits until it is online
        yield running


@pytest.fixture(scope="session")
def visitor(site: EmbeddedSite) -> Iterator[Visitor]:
    with site.login() as visitor:
        yield visitor


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The processes of production with two web processes. The device prefers the first one.

    Heartbeats are rare and no sweep runs, so every reaction is caused by a wake-up message.
    """
    folder = tmp_path_factory.mktemp("cluster")
    replayer = write_replayer(folder, DATA / "profiles" / "tiny.json")
    with (
        Cluster(folder, webs=2, HEARTBEAT_S="600", LEASE_S="3600") as cluster,
        balancer(cluster.ports) as port,
    ):
        cluster.start("actors", parts.actors())
        cluster.start_agent(replayer, server=f"http://127.0.0.1:{port}")
        yield cluster


@pytest.fixture(scope="module")
def permission_site(object_storage, tmp_path_factory, django_db_setup, django_db_blocker):
    """Users and agents with their tasks, results and devices, in a bucket of their own."""
    folder = tmp_path_factory.mktemp("agent")
    changed = {
        "S3_ENDPOINT_URL": object_storage,
        "S3_PUBLIC_ENDPOINT_URL": object_storage,
        "S3_BUCKET": f"test-{uuid.uuid4().hex}",
        "AGENT_FOLDER": str(folder),
        # on a busy machine the tests take longer than a password counts as just typed
        "ACCOUNT_REAUTHENTICATION_TIMEOUT": 24 * 3600,
    }
    with (
        override_settings(**changed),
        django_db_blocker.unblock(),
        rolled_back(),
    ):
        object_store.client.create_bucket(Bucket=changed["S3_BUCKET"])
        yield PermissionSite(folder)
