"""Parser of request bodies: JSON of bounded length and depth."""

import math
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.utils import json

from webprofile.api.problems import too_large
from webprofile.errors import DomainError

#: characters of a too large number that an error message repeats
_EXCERPT_LENGTH = 30


class JsonParser(BaseParser):
    """Parse strict JSON in UTF-8, without NaN, infinities or lone surrogates.

    DRF's parser reads bodies of any length. This one raises DomainError body_too_large for a body
    above `DATA_UPLOAD_MAX_MEMORY_SIZE`.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        content_length = int((parser_context or {})["request"].META.get("CONTENT_LENGTH") or 0)
        # `body_limit` empties a body whose Content-Length is too large for any view
        body = b"" if content_length > limit else stream.read(limit + 1)
        if content_length > limit or len(body) > limit:
            raise too_large()
        try:
            text = body.decode()
            content = json.loads(text, strict=True, parse_float=_finite, parse_constant=_finite)
            # "\ud800" is valid JSON, but databases cannot store a lone surrogate
            json.dumps(content, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ParseError from error
        return content


def _finite(text: str) -> float:
    """Parse a number; raises DomainError number_large if Python would make it infinite (1e999)."""
    number = float(text)
    if math.isinf(number):
        raise DomainError("number_large", status=400, value=text[:_EXCERPT_LENGTH])
    return number
