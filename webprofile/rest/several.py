"""What goes out of one act on several rows: what came of each."""

from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.response import Response

from webprofile.administration.several import Came
from webprofile.wording import word

RESULTS = ("changed", "unchanged", "refused")


class CameRow(serializers.Serializer):
    """What came of an act on one row."""

    id = serializers.IntegerField(source="row.pk", help_text="Its number.")
    name = serializers.CharField(help_text="What it is called now; of a user the e-mail.")
    result = serializers.SerializerMethodField(
        help_text="`unchanged`: it was so before; `refused`: it is left as it was."
    )
    code = serializers.SerializerMethodField(
        help_text="Why it was refused, as of the act on one; empty otherwise."
    )
    detail = serializers.SerializerMethodField(help_text="The same in the reader's words.")

    @extend_schema_field(serializers.ChoiceField(RESULTS))
    def get_result(self, came: Came) -> str:
        if came.refusal is not None:
            return "refused"
        return "changed" if came.changed else "unchanged"

    def get_code(self, came: Came) -> str:
        return "" if came.refusal is None else came.refusal.code

    def get_detail(self, came: Came) -> str:
        return "" if came.refusal is None else word(came.refusal)


class CameAnswer(serializers.Serializer):
    """What came of each row, in the order asked for."""

    rows = CameRow(many=True, help_text="Every row once.")


def came_response(came: Iterable[Came]) -> Response:
    answer: dict[str, Any] = {"rows": list(came)}
    return Response(CameAnswer(answer).data)
