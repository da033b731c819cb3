"""Bodies: JSON of bounded length and depth."""

import math
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.utils import json

from webprofile.api.problems import too_large
from webprofile.errors import DomainError

#: of a number that is too large
_SHOWN = 30


class JsonParser(BaseParser):
    """Strict JSON in UTF-8: no NaN, no halves of characters. DRF's reads bodies of any length."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        announced = (parser_context or {})["request"].META.get("CONTENT_LENGTH") or 0
        # what was announced as too long for any view comes as an empty body (`body_limit`)
        body = b"" if int(announced) > limit else stream.read(limit + 1)
        if int(announced) > limit or len(body) > limit:
            raise too_large()
        try:
            text = body.decode()
            found = json.loads(text, strict=True, parse_float=_finite)
            # "\ud800" is JSON, but no text that a database could keep
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ParseError from error
        return found


def _finite(text: str) -> float:
    """A number that is none of Python's infinite ones, as 1e999 would become."""
    number = float(text)
    if math.isinf(number):
        raise DomainError("number_large", status=400, value=text[:_SHOWN])
    return number
