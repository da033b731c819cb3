"""User-facing messages for error codes of the API."""

from typing import Any

from django.utils.translation import gettext_lazy as _

REST: dict[str, Any] = {
    "malformed": _("The request cannot be read: it is not valid JSON, or its address is not."),
    "number_large": _("The number %(value)s is too large."),
    "not_authenticated": _("Log in, or send a token: Authorization: Bearer ..."),
    "token_invalid": _("The token is unknown, expired or revoked. Get another one."),
    "login_failed": _("E-mail, password or code is wrong, or the account is not active."),
    "login_throttled": _("Too many attempts to log in. Try again in some minutes."),
    "code_needed": _("This account has a second factor: send its code or a recovery code too."),
    "forbidden": _("You may not do this."),
    "csrf_failed": _("The CSRF token is missing or wrong. Send the header X-CSRFToken."),
    "scope_missing": _(
        "The token has not the scope “%(scope)s”, which this needs. Make a token that has it."
    ),
    "token_not_here": _("An access token may not do this. Log in with a password."),
    "not_found": _(
        "There is nothing at this address, or it is not yours to see. Addresses end in a slash."
    ),
    "method_not_allowed": _("This method is not allowed here. See the header Allow."),
    "not_acceptable": _("This is not available in any format that the header Accept asks for."),
    "media_type_unknown": _("Send JSON: Content-Type: application/json."),
    "body_too_large": _("The body is larger than %(limit_kib)s KiB, the most that is accepted."),
    "invalid": _("Some fields are wrong; errors says which and why."),
    "query_invalid": _("Some values in the address are wrong; errors says which and why."),
    "query_unknown": _("There is no parameter “%(name)s” here."),
    "limit_bad": _("limit is a whole number from 1 to %(limit)s."),
    "cursor_bad": _("This cursor is none of this list. Begin without one."),
    "throttled": _("Too many requests. Try again in %(wait_s)s s."),
    "server_error": _("The fault is ours and has been logged. Try again in a minute."),
    "idempotency_key_bad": _("An Idempotency-Key has 1 to %(limit)s printable ASCII characters."),
    "idempotency_key_reused": _("This Idempotency-Key belongs to another request. Take a new one."),
    "idempotency_in_progress": _(
        "The first request with this Idempotency-Key is under way. Repeat this one in a moment."
    ),
    "cancel_which": _("Name tasks, or say all_mine: one of the two."),
    "task_live": _("This task has not ended. Cancel it first."),
    "profile_not_yet": _(
        "Task #%(task)s has no profile yet: it is %(state)s. Ask again when it has ended."
    ),
    "profile_never": _(
        "Task #%(task)s left no profile: it is %(state)s. The task itself says why; ask for it "
        "once more with a plan that profiles."
    ),
    "profile_unusable": _("This profile cannot be analysed: %(detail)s"),
    "window_bad": _("Give both ends of the window, the first below the second."),
    "comparison_choice": _("These cannot be compared: %(detail)s"),
}
