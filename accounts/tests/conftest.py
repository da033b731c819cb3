"""Fixtures of the tests of accounts."""

import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def _fresh_limits():
    """Attempts of another test count for nothing."""
    cache.clear()
