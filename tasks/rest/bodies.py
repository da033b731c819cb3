"""Request bodies and query parameters of the task endpoints; a new task: `submission.schema`."""

from rest_framework import serializers

from tasks.queue.turns import ANY_PRIORITY
from webprofile.rest import fields


class MoveBody(fields.Body):
    """Where to."""

    worker = fields.Named(help_text="The device, by number or name.")


class TaskChange(fields.Body):
    """What may be changed of a task that has not started."""

    priority = fields.Integer(
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        help_text="More goes first, among its owner's tasks.",
    )


class KeepBody(fields.Body):
    """Whether rules leave a task's files alone."""

    keep = fields.Flag(help_text="True: nothing of this task is removed by rule.")


class SavedViewBody(fields.Body):
    """Filters under a name."""

    name = fields.Text(max_length=60, help_text="One of the same name is replaced.")
    query = fields.Text(max_length=1000, help_text="As in the page's address, without `?`.")


class SubmitQuery(fields.Query):
    """What becomes of a task that cannot be submitted."""

    discard = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Remove a task whose files or device cannot be used (422), for a caller that "
        "corrects the request and asks for another task.",
    )


class EventsQuery(fields.Query):
    """From where on."""

    after = fields.Whole(
        required=False,
        default=0,
        min_value=0,
        max_value=fields.KEY_LIMIT,
        help_text="Events after this number.",
    )
    limit = fields.Whole(
        required=False, default=200, min_value=1, max_value=1000, help_text="At most so many."
    )


class AttemptQuery(fields.Query):
    """Which attempt."""

    attempt = fields.Whole(
        required=False,
        min_value=1,
        max_value=32767,
        help_text="Number of the attempt; the last one if not given.",
    )


class LogQuery(AttemptQuery):
    """Which part of a log."""

    offset = fields.Whole(
        required=False,
        default=0,
        min_value=0,
        max_value=fields.KEY_LIMIT,
        help_text="Bytes of UTF-8 to pass over, as `Log-Next-Offset` told.",
    )
