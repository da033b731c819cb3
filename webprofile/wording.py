"""The reader's words for error codes: what is wrong, and the next step."""

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webprofile.errors import DomainError

WORDINGS: dict[str, Any] = {
    # a request for a task
    "worker_unknown": _("There is no such device. Choose one from the list."),
    "worker_disabled": _("%(worker)s takes no tasks at the moment. Choose another device."),
    "worker_is_offline": _(
        "%(worker)s is offline. Choose another device, or wait until it is back online."
    ),
    "runtime_missing": _(
        "%(worker)s does not have MegEngine %(version)s. Choose a version that it has."
    ),
    "runtime_broken": _("MegEngine cannot be used on %(worker)s: %(problem)s"),
    "one_model_wanted": _("Choose one model file (.mge)."),
    "too_many_files": _("At most %(limit)s data files fit into one task."),
    "file_name_bad": _("The file's name is empty or has control characters. Rename it."),
    "file_name_long": _("The file's name is longer than %(limit)s characters. Rename it."),
    "file_name_path": _("“%(name)s” is a path. Give the file's name alone."),
    "file_empty": _("“%(name)s” is empty (0 bytes). Choose a complete file."),
    "file_too_large": _("“%(name)s” is larger than %(limit_mib)s MiB, the most that is accepted."),
    "checksum_bad": _("“%(name)s” came without its checksum. Reload the page and try again."),
    "data_kind_unknown": _("“%(name)s” is neither .npy nor .json. Save the array with numpy.save."),
    "input_name_missing": _("Say which input variable of the model “%(name)s” is for."),
    "input_name_long": _("An input variable's name has at most %(limit)s characters."),
    "input_name_bad": _(
        "“%(input)s” cannot be given to load_and_run: it splits names at “:” and “;”. "
        "Rename the variable when you dump the model."
    ),
    "input_name_twice": _("Two files are for the input variable “%(input)s”. Keep one of them."),
    "option_unknown": _("There is no option “%(option)s”."),
    "option_not_bool": _("%(option)s is either on or off."),
    "option_not_int": _("%(option)s must be a whole number."),
    "option_too_small": _("%(option)s must be at least %(limit)s."),
    "option_too_large": _("%(option)s must be at most %(limit)s."),
    "option_excluded": _("%(option)s and %(limit)s exclude each other. Keep one of them."),
    "bad_request": _("The request could not be read. Reload the page and try again."),
    # an upload
    "upload_missing": _("Not in storage yet: %(files)s. Upload again; nothing else is lost."),
    "upload_damaged": _("Arrived damaged (size or checksum differ): %(files)s. Upload again."),
    "not_initiated": _("This task has ended. Start a new one."),
    "storage_unreachable": _("Object storage does not answer. Try again in a minute."),
    "object_missing": _("The file is not in storage any more."),
    "object_too_large": _("The file is too large to be shown; download it instead."),
    "profile_damaged": _("The stored profile is damaged. Download the raw profile instead."),
    "not_finished": _("There is no result yet."),
    # an agent
    "code_unknown": _(
        "This enrolment code is unknown. Ask an administrator for a new one on the device's page."
    ),
    "code_used": _("This enrolment code was used or replaced. Ask an administrator for a new one."),
    "code_expired": _("This enrolment code has expired. Ask an administrator for a new one."),
    "token_unknown": _("This token is unknown. Enrol the device again: python -m agent enrol."),
    "token_revoked": _(
        "This token was revoked. Ask an administrator for an enrolment code and enrol again."
    ),
}


def word(error: DomainError) -> str:
    """The message of an error in the reader's language; if there is none, one with the code."""
    text = WORDINGS.get(error.code)
    if text is None:
        return gettext("Something went wrong (%(code)s).") % {"code": error.code}
    return str(text) % error.data


def as_json(error: DomainError) -> dict[str, Any]:
    """The body of an error's answer: {"error": code, "message": text, "field": name}."""
    return {"error": error.code, "message": word(error), "field": error.field}
