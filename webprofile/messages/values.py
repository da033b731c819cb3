"""Placeholders of error messages and their descriptions, for the list of all error codes."""

import re
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

_PLACE = re.compile(r"%\((\w+)\)s")

MEANINGS: dict[str, Any] = {
    "character": _("the code point of the character, such as U+202E"),
    "axes": _("how many axes the array has"),
    "choices": _("what may be given, with commas between"),
    "count": _("how many there are"),
    "detail": _("what is wrong, in words"),
    "devices": _("devices with commas between, in brackets what each has"),
    "dtype": _("the type of the numbers, such as float32"),
    "entry": _("the entry point that was given"),
    "events": _("how many spans and counters the range has"),
    "extra": _("how many bytes are too many"),
    "files": _("names of files, with commas between"),
    "first": _("length of the first row"),
    "date": _("when it was removed"),
    "days": _("how long such files are kept, days"),
    "found": _("the characters that were found there"),
    "high": _("the highest value that is accepted"),
    "input": _("an input variable of the model"),
    "instead": _("the type of numbers to use instead"),
    "kinds": _("types of numbers that are read, with commas between"),
    "label": _("name of a label"),
    "labels": _("labels, with commas between"),
    "length": _("length of the header, bytes"),
    "limit": _("the most or the least that is accepted, as the sentence says"),
    "limit_kib": _("the most that is accepted, KiB"),
    "limit_mib": _("the most that is accepted, MiB"),
    "live": _("how many of your tasks have not ended"),
    "used_gib": _("storage used by the files of your tasks, GiB"),
    "limit_gib": _("storage limit, GiB"),
    "low": _("the lowest value that is accepted"),
    "most": _("the largest value in the picture"),
    "name": _("what was given: the name of a file, a thing or a parameter"),
    "names": _("values that match, separated by commas"),
    "number": _("number of the row, from 1 on"),
    "operators": _("how many operators the results have together"),
    "option": _("name of an option of load_and_run"),
    "other": _("name of the other file"),
    "packed_mib": _("the largest dump as it is stored, MiB"),
    "place": _("number of the character, from 1 on"),
    "pool": _("name of a pool of devices"),
    "pools": _("names of pools, with commas between"),
    "problem": _("what is wrong, in words"),
    "problems": _("everything that is wrong with the password, in words"),
    "promise": _("what the header says: shape and type"),
    "reason": _("why the health check failed, in words"),
    "scope": _("the scope that a token needs"),
    "shape": _("lengths of the axes"),
    "size": _("size of the file, bytes"),
    "size_mib": _("size of the range in the file, MiB"),
    "state": _("its state, as for tasks and imported profiles"),
    "task": _("number of a task"),
    "type": _("the type that the file names"),
    "unpacked_mib": _("the largest dump when it is unpacked, MiB"),
    "user": _("e-mail address of a user"),
    "value": _("the value that was given"),
    "version": _("a version, as it was given"),
    "versions": _("a range of versions, as it was given"),
    "wait_s": _("how long to wait, s"),
    "wanted": _("how many bytes are needed"),
    "worker": _("name of the device"),
}
#: descriptions of placeholders with another meaning in single codes
_OTHERWISE: dict[tuple[str, str], Any] = {
    ("attempt_recorded_nothing", "number"): _("number of the attempt, from 1 on"),
    ("cut_lane", "number"): _("number of the requested thread"),
    ("input_json_numbers", "wanted"): _("number of elements of the shape"),
    ("literal_ragged", "other"): _("length of that row"),
    ("option_bad_choice", "limit"): _("what may be given, with commas between"),
    ("option_core_missing", "limit"): _("number of the last core of the device"),
    ("option_excluded", "limit"): _("name of the other option"),
    ("option_mdl", "limit"): _("name of the other option"),
    ("option_needs", "limit"): _("names of options, with commas between"),
    ("option_target", "limit"): _("what the model runs on"),
    ("option_thread_count", "limit"): _("how many threads there are"),
    ("plan_field", "name"): _("name of a number of the plan"),
    ("script_arguments_bad", "length"): _("the most characters of an argument"),
    ("script_arguments_bad", "limit"): _("the most arguments"),
    ("script_entry_not_there", "names"): _("programs within the archive, with commas between"),
    ("source_missing", "name"): _("name of the file that was not left"),
    ("target_pool_unmet", "devices"): _("names of devices, with commas between"),
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
