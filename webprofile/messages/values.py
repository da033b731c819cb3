"""Placeholders of error messages and their descriptions, for the list of all error codes."""

import re
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

_PLACE = re.compile(r"%\((\w+)\)s")

MEANINGS: dict[str, Any] = {
    "character": _("the code point of the character, such as U+202E"),
    "axes": _("number of axes of the array"),
    "choices": _("valid values, separated by commas"),
    "count": _("number of items"),
    "detail": _("description of the problem"),
    "devices": _("devices, separated by commas, with details of each in parentheses"),
    "dtype": _("data type, such as float32"),
    "entry": _("the given entry point"),
    "events": _("number of spans and counters in the range"),
    "extra": _("number of surplus bytes"),
    "files": _("names of files, separated by commas"),
    "first": _("length of the first row"),
    "date": _("when it was removed"),
    "days": _("how long such files are kept, days"),
    "found": _("the characters found"),
    "high": _("the highest valid value"),
    "input": _("an input variable of the model"),
    "instead": _("the data type to use instead"),
    "kinds": _("supported data types, separated by commas"),
    "label": _("name of a label"),
    "labels": _("labels, separated by commas"),
    "length": _("length of the header, bytes"),
    "limit": _("the maximum or minimum that the message states"),
    "limit_kib": _("the maximum, KiB"),
    "limit_mib": _("the maximum, MiB"),
    "live": _("number of your tasks that have not ended"),
    "used_gib": _("storage used by the files of your tasks, GiB"),
    "limit_gib": _("storage limit, GiB"),
    "low": _("the lowest valid value"),
    "most": _("the largest value in the picture"),
    "name": _("name of a file, an object or a parameter, as given in the request"),
    "names": _("items that the message refers to, separated by commas"),
    "number": _("number of the row, starting from 1"),
    "operators": _("number of operators of all results together"),
    "option": _("name of an option of load_and_run"),
    "other": _("name of the other file"),
    "packed_mib": _("compressed size of the largest dump, MiB"),
    "place": _("position of the character, starting from 1"),
    "pool": _("name of a pool of devices"),
    "pools": _("names of pools, separated by commas"),
    "problem": _("description of the problem"),
    "problems": _("all problems with the password"),
    "promise": _("shape and type in the header"),
    "reason": _("reason why the health check failed"),
    "scope": _("the required scope"),
    "shape": _("lengths of the axes"),
    "size": _("size of the file, bytes"),
    "size_mib": _("size of the range in the file, MiB"),
    "state": _("status of the task or imported profile, as shown in the lists"),
    "task": _("number of a task"),
    "type": _("the type in the file"),
    "unpacked_mib": _("uncompressed size of the largest dump, MiB"),
    "user": _("e-mail address of a user"),
    "value": _("the given value"),
    "version": _("the given version"),
    "versions": _("the given range of versions"),
    "wait_s": _("waiting time, s"),
    "wanted": _("number of bytes needed"),
    "worker": _("name of the device"),
}
#: descriptions of placeholders with another meaning in single codes
_OTHERWISE: dict[tuple[str, str], Any] = {
    ("attempt_recorded_nothing", "number"): _("number of the attempt, starting from 1"),
    ("cut_lane", "number"): _("number of the requested thread"),
    ("input_json_numbers", "wanted"): _("number of elements of the shape"),
    ("literal_ragged", "other"): _("length of that row"),
    ("option_bad_choice", "limit"): _("valid values, separated by commas"),
    ("option_core_missing", "limit"): _("numbers of the cores that runs may use"),
    ("option_excluded", "limit"): _("name of the other option"),
    ("option_mdl", "limit"): _("name of the other option"),
    ("option_needs", "limit"): _("names of options, separated by commas"),
    ("option_target", "limit"): _("device that the model runs on"),
    ("option_thread_count", "limit"): _("number of threads"),
    ("plan_field", "name"): _("field of the plan"),
    ("script_arguments_bad", "length"): _("maximum number of characters of an argument"),
    ("script_arguments_bad", "limit"): _("maximum number of arguments"),
    ("script_entry_not_there", "names"): _("programs within the archive, separated by commas"),
    ("source_missing", "name"): _("name of the missing file"),
    ("target_pool_unmet", "devices"): _("names of devices, separated by commas"),
}


class Filled(NamedTuple):
    """A placeholder of an error message and the description of its value."""

    name: str
    meaning: str


def template(text: Any) -> str:
    """Return the message of a code with placeholders in braces: `at most {limit} files`."""
    shown = str(text)
    return shown % {name: f"{{{name}}}" for name in _PLACE.findall(shown)}


def values_in(code: str, text: Any) -> list[Filled]:
    """Return the placeholders in the message of a code, in order and without duplicates."""
    names = dict.fromkeys(_PLACE.findall(str(text)))
    return [Filled(name, str(_OTHERWISE.get((code, name), MEANINGS[name]))) for name in names]
