"""Render API responses as JSON."""

import math
from collections.abc import Mapping
from typing import Any

from rest_framework import renderers


class FiniteJSONRenderer(renderers.JSONRenderer):
    """JSON with null for NaN and infinity, which JSON lacks."""

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        try:
            return super().render(data, *args, **kwargs)
        except ValueError:
            return super().render(_finite(data), *args, **kwargs)


def _finite(value: Any) -> Any:
    """Return the data with None for each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
