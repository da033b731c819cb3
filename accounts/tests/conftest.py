"""Fixtures of the tests of accounts."""

import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def _fresh_limits():
    """Reset rate limits, so that attempts of other tests do not count."""
    cache.clear()
