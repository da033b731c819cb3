"""API view of the result of a paired comparison."""

import math
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agent.protocol.pairs import Pairing
from profiles.api.base import ResultView, no_result_error
from profiles.api.figure_views import DisturbanceAnswer
from profiles.api.serializer_fields import answer_of
from profiles.comparison.messages import letter
from profiles.comparison.paired_operators import (
    MOST_KEPT,
    MOST_NAMED,
    ArmChanges,
    OperatorChange,
    explanation,
)
from profiles.models import PairedResult
from profiles.presenters.attempt_messages import disturbance_word
from profiles.presenters.paired import VERDICTS, arm_options, differs, paired_view
from profiles.selectors import paired_of
from tasks.models import Task
from webprofile import answers as fields
from webprofile.api.schema import problems
from webprofile.errors import DomainError
from webprofile.messages.notes import details_text
from webprofile.sentences import sentences

_LETTER = "A for the baseline, then B, C and D."


class PairedOutputAnswer(serializers.Serializer):
    """How an output of an arm differs from that of the baseline, for the same data."""

    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    max_abs = fields.number("Largest absolute difference.")
    max_rel = fields.number(
        "Largest absolute difference / largest absolute value of the baseline's output."
    )
    cosine = fields.number("Cosine similarity.")
    sqnr_db = serializers.FloatField(
        allow_null=True,
        help_text="Ratio of signal to quantization noise, dB; null if the outputs are equal or "
        "cannot be compared.",
    )
    differs = serializers.BooleanField(
        help_text="Whether the cosine similarity is below `least_cosine`, or the outputs cannot be "
        "compared."
    )
    text = serializers.CharField(help_text="The same in the user's language.")


class PairedArmAnswer(serializers.Serializer):
    """An arm of a paired comparison."""

    letter = serializers.CharField(help_text=_LETTER)
    model = serializers.CharField(help_text="File name of its model.")
    version = serializers.CharField(help_text="Its version of MegEngine.")
    options = serializers.DictField(
        child=serializers.JSONField(),
        help_text="Its options of load_and_run that differ from their defaults.",
    )
    usual_ms = fields.number("Median iteration time before the comparison, ms.")
    iterations = serializers.IntegerField(
        help_text="Iterations of each of its turns. The first one does not count, unless it is the "
        "only one."
    )
    outputs = PairedOutputAnswer(many=True, help_text="Its outputs; empty for the baseline.")


class PairedVerdictAnswer(serializers.Serializer):
    """The verdict on an arm, compared with the baseline."""

    letter = serializers.CharField(help_text="Whose.")
    verdict = serializers.ChoiceField(
        [*VERDICTS], help_text="`same`: equally fast within the margin; `not_enough`: undecided."
    )
    effect = fields.number("Time of the arm / time of the baseline - 1.")
    low = fields.number("Lower bound of its 95 % interval.")
    high = fields.number("Upper bound of its 95 % interval.")
    smallest = fields.number("Smallest effect that so many pairs could have shown.")
    more_s = fields.number("About how much longer until a verdict, s.")
    pairs = serializers.IntegerField(help_text="Number of pairs that it was computed from.")
    sentence = serializers.CharField(help_text="The same in the user's language.")


class PairedOperatorsAnswer(serializers.Serializer):
    """The operators of an arm, from turns with the profiler."""

    letter = serializers.CharField(help_text="Whose.")
    pairs = serializers.IntegerField(help_text="Number of pairs with times of operators.")
    tested = serializers.IntegerField(
        help_text="Number of operators that were tested: those that take 0.1 % or more."
    )
    named = answer_of(OperatorChange)(
        many=True,
        help_text=f"The operators that make the arm slower or faster, at most {MOST_NAMED}, the "
        "most important first. With another verdict, those that differ most.",
    )
    share = fields.number(
        "Share of the difference in iteration time that the named ones explain; null with another "
        "verdict."
    )
    operators = answer_of(OperatorChange)(
        many=True,
        help_text=f"At most {MOST_KEPT}, those that differ first, then by the size of `delta_us`.",
    )


class ProcessPairAnswer(serializers.Serializer):
    """One pair: a fresh process of each arm, which took turns."""

    changes = fields.numbers("Of each arm after the baseline: its time / that of the baseline - 1.")
    disturbances = DisturbanceAnswer(
        many=True, help_text="Why it was disturbed. A disturbed pair does not count."
    )


class PairsAnswer(serializers.Serializer):
    """The result of a paired comparison."""

    arms = PairedArmAnswer(many=True, help_text="The arms; the first is the baseline.")
    verdicts = PairedVerdictAnswer(many=True, help_text="Of each arm after the baseline.")
    differing = fields.texts(
        "Letters of the arms whose outputs differ from those of the baseline. Check these before "
        "the times."
    )
    operators = PairedOperatorsAnswer(
        many=True,
        help_text="Of each arm after the baseline; empty if the arms could not be profiled.",
    )
    pairs = ProcessPairAnswer(many=True, help_text="All pairs, in chronological order.")
    pairs_to_verdict = serializers.IntegerField(
        help_text="Number of pairs, from the first, until the verdicts were clear. Later ones were "
        "measured only to find the operators that differ."
    )
    seed = serializers.IntegerField(help_text="Of the order of the turns.")
    measuring_s = serializers.FloatField(
        help_text="From the start of the first pair to the verdict, s."
    )


class PairsView(ResultView):
    """The result of a task that is a paired comparison."""

    @extend_schema(
        summary="Show a task's pairs",
        responses={200: PairsAnswer}
        | problems({409: ["profile_not_yet", "profile_never", "pairs_none"]}),
        operation_id="profiles_pairs_of_task",
    )
    def get(self, request: Request, task_id: int) -> Response:
        """Verdicts, outputs and all pairs of a paired comparison. Its latency and device state are
        those of `measurement/`.
        """
        task = self.task(task_id)
        if not task.is_paired:
            raise DomainError("pairs_none", status=409, task=task.pk)
        paired = paired_of(task)
        if paired is None:
            raise no_result_error(task)
        return Response(PairsAnswer(_answer(paired, task)).data)


def _answer(paired: PairedResult, task: Task) -> dict[str, Any]:
    view, models = paired_view(paired, task), task.arm_models
    least_cosine = Pairing.model_validate(task.pairing).least_cosine
    return {
        "arms": [
            {
                **row,
                "letter": arm.letter,
                "model": models[number].name if number < len(models) else "",
                "version": arm.version,
                "options": arm_options(task, number),
                "outputs": [
                    {**output, "differs": differs(output, least_cosine), "text": text}
                    for output, (_, text, _) in zip(row["outputs"], arm.outputs, strict=True)
                ],
            }
            for number, (row, arm) in enumerate(zip(paired.arms, view["arms"], strict=True))
        ],
        "verdicts": [
            {
                **row,
                "letter": letter(row["arm"]),
                "sentence": sentences([words.sentence, words.more]),
            }
            for row, words in zip(paired.verdicts, view["verdicts"], strict=True)
        ],
        "differing": view["differing"],
        "pairs_to_verdict": paired.pairs_to_verdict,
        "operators": [
            _operators(changes, verdict)
            for changes, verdict in zip(paired.operators, paired.verdicts, strict=False)
        ],
        "pairs": [
            {
                "changes": [
                    None if ratio is None else math.expm1(ratio) for ratio in pair["ratios"]
                ],
                "disturbances": [
                    {
                        "code": row["code"],
                        "text": disturbance_word(row["code"]),
                        "detail": details_text(row["details"] or ()),
                    }
                    for row in pair["disturbances"]
                ],
            }
            for pair in paired.pairs
        ],
        "seed": paired.seed,
        "measuring_s": paired.measuring_s,
    }


def _operators(changes: ArmChanges, verdict: dict[str, Any]) -> dict[str, Any]:
    named, share = explanation(changes, verdict["verdict"], verdict["effect"])
    return {**changes, "letter": letter(changes["arm"]), "named": named, "share": share}
