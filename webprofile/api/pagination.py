"""Cursor pagination of lists: pages stay correct while rows are added and deleted."""

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int

LONGEST_PAGE = 200


class CursorPages(CursorPagination):
    """Pages of `?limit=` rows (1 to `LONGEST_PAGE`) by primary key, the newest row first."""

    page_size = 50
    max_page_size = LONGEST_PAGE
    page_size_query_param = "limit"
    page_size_query_description = f"Rows of a page, 1 to {LONGEST_PAGE}; 50 if not given."
    cursor_query_description = "Start of a page, from `next` or `previous` of another page."
    ordering = "-id"

    def get_page_size(self, request: Request) -> int:
        limit = request.query_params.get("limit")
        if limit is None:
            return self.page_size
        size = parse_int(str(limit), maximum=LONGEST_PAGE)
        if not size:
            raise DomainError("limit_bad", field="limit", status=400, limit=LONGEST_PAGE)
        return size

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Decode a cursor as DRF does, and reject one whose position is not an id.

        Raises DomainError cursor_bad.
        """
        try:
            cursor = super().decode_cursor(request)
        except NotFound as error:
            raise _cursor_bad() from error
        position = None if cursor is None else cursor.position
        if position is not None and parse_int(str(position), maximum=LARGEST_KEY) is None:
            raise _cursor_bad()
        return cursor

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        address: dict[str, Any] = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "description": "A page of a list, the newest row first.",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": address | {"description": "URL of the next page; null for the last page."},
                "previous": address | {"description": "Of the one before; null: the first one."},
                "results": schema | {"description": "The page's rows."},
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for parameter in parameters:
            if parameter["name"] == "limit":
                limits = {"minimum": 1, "maximum": LONGEST_PAGE, "default": self.page_size}
                parameter["schema"] |= limits
        return parameters


def _cursor_bad() -> DomainError:
    return DomainError("cursor_bad", field="cursor", status=400)
