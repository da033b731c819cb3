"""Fixtures for tests of tasks."""

import pytest


@pytest.fixture
def devices_stay_online(settings) -> None:
    """Keep devices without heartbeats online, for tests that take long on a slow machine."""
    settings.HEARTBEAT_S = 3600
