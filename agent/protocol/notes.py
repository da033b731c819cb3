"""What an agent reports to users: codes with values, and the English text of each code.

Only codes and values are sent. The server translates the texts, which are therefore marked for its
catalogue; the agent's own commands and log print them in English.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from agent.protocol.numbers import LimitedJson

#: most characters of a value, such as a name in a model or the message of another program
LONGEST_VALUE = 500
_LONGEST_NAME = 40
_MOST_VALUES = 10
#: notes within values
_DEEPEST = 4


def gettext_noop(text: str) -> str:
    """Mark a text for `manage.py makemessages`."""
    return text


#: code -> text with placeholders
TEXTS: dict[str, str] = {
    # about the inputs and the threads of a run that succeeded
    "oversubscribed": gettext_noop(
        "The options request %(threads)s threads, but the run has %(cores)s cores: the threads "
        "wait for each other, and the times include this waiting."
    ),
    "clean_too_short": gettext_noop(
        "The latency pass was too short: %(seconds)s s (iterations: %(iterations)s). The plan "
        "requires at least %(least_s)s s."
    ),
    "passes_repeated": gettext_noop(
        "All passes were run twice, because the speed of the device was outside its usual range "
        "after the first time. The results are from the second time."
    ),
    "repetition_failed": gettext_noop(
        "The speed of the device was outside its usual range after the passes, and repeating "
        "them failed. The results are from the first time."
    ),
    "interval_narrow": gettext_noop(
        "The interval of the median was narrow enough after %(passes)s latency passes: "
        "±%(percent)s %%; the target was ±%(wanted)s %% or less."
    ),
    "interval_wide": gettext_noop(
        "The limit of latency passes (time, number or iterations) was reached after %(passes)s "
        "passes. The interval of the median is ±%(percent)s %%; the target was ±%(wanted)s %%."
    ),
    "interval_unknown": gettext_noop(
        "The limit of latency passes (time, number or iterations) was reached. Too few passes "
        "for a confidence interval of the median: %(passes)s."
    ),
    "ended_early": gettext_noop(
        "Ended early on request. The result contains what had been measured."
    ),
    "input_missing": gettext_noop(
        "Input “%(name)s” (%(type)s) has no data: the run uses uninitialized memory."
    ),
    "input_random": gettext_noop(
        "Input “%(name)s” (%(type)s) has no data: the run uses random values."
    ),
    "input_shape": gettext_noop(
        "Input “%(name)s” has the shape %(shape)s; the model was dumped with %(expected)s."
    ),
    "input_not_finite": gettext_noop(
        "Input “%(name)s” contains NaN or infinity (%(count)s of %(size)s values)."
    ),
    # about a paired comparison
    "of_arm": gettext_noop("%(arm)s: %(note)s"),
    "arm_failed": gettext_noop("Arm %(arm)s failed."),
    "outputs_unknown": gettext_noop("The outputs were not recorded."),
    "outputs_count": gettext_noop("number of outputs: %(count)s instead of %(expected)s"),
    "outputs_shape": gettext_noop("shape %(shape)s instead of %(expected)s"),
    "outputs_not_finite": gettext_noop("NaN or infinity in one of them"),
    # what was observed of a disturbance, and why a device was not idle
    "waited": gettext_noop("threads waited for a core for %(percent)s %% of the time"),
    "other_processes": gettext_noop("other processes used %(percent)s %% of a core"),
    "named_processes": gettext_noop("other processes used %(percent)s %% of a core: %(names)s"),
    "stolen": gettext_noop("the host gave %(percent)s %% of a core to other virtual machines"),
    "cpu_limited": gettext_noop(
        "a CPU limit (control group) withheld %(percent)s %% of a core from the run"
    ),
    "cpu_throttled": gettext_noop("the CPU was throttled (%(kind)s; throttling events: %(times)s)"),
    "gpu_throttled": gettext_noop("the GPU was throttled (%(reasons)s)"),
    "clock_dropped": gettext_noop("the CPU clock fell from %(before)s to %(after)s MHz"),
    "hot": gettext_noop("the CPU reached %(degrees)s °C"),
    "memory_low": gettext_noop("only %(mib)s MiB of memory were free"),
    "swapped": gettext_noop("%(mib)s MiB were moved between memory and swap"),
    "gpu_shared": gettext_noop("a GPU was used by other processes (number: %(count)s)"),
    "at_share_of_itself": gettext_noop("%(percent)s %% of its usual speed after the run"),
    # why a runtime cannot be used
    "cannot_start": gettext_noop("Cannot start %(path)s: %(cause)s"),
    "cannot_import": gettext_noop("Cannot import MegEngine: %(cause)s"),
    "import_slow": gettext_noop("Importing MegEngine took longer than %(seconds)s s."),
    "not_a_file": gettext_noop("%(path)s is not a file."),
    "not_executable": gettext_noop("%(path)s is not executable."),
    "start_slow": gettext_noop("%(path)s did not exit within %(seconds)s s."),
    "version_unknown": gettext_noop("%(path)s does not print its version: %(cause)s"),
    "version_differs": gettext_noop(
        "%(path)s is MegEngine %(version)s, but the configuration says %(configured)s. Correct "
        "“version” in the configuration."
    ),
    "exit_code": gettext_noop("exit code %(number)s"),
    #: the words of the device's owner in the configuration
    "configured": gettext_noop("%(text)s"),
    "runtime_not_configured": gettext_noop(
        "MegEngine %(version)s is not configured on this device."
    ),
    "runtime_unusable": gettext_noop("MegEngine %(version)s cannot be used. %(problem)s"),
    # why there is no sandbox, and why scripts are not run
    "bwrap_missing": gettext_noop("bubblewrap is not installed. Install the package “bubblewrap”."),
    "bwrap_not_started": gettext_noop("bubblewrap does not start: %(cause)s"),
    "bwrap_failed": gettext_noop("bubblewrap does not work on this device: %(cause)s"),
    "closed_sandbox_failed": gettext_noop(
        "bubblewrap cannot create a closed sandbox on this device: %(cause)s"
    ),
    "sandbox_untested": gettext_noop("The sandbox has not been tested."),
    "scripts_forbidden": gettext_noop(
        "Scripts are not allowed on this device. Its owner can allow them with “allow = true” in "
        "the section [scripts] of the agent’s configuration; a running agent applies the change."
    ),
    "scripts_need_sandbox": gettext_noop("Scripts run in a sandbox only. %(problem)s"),
    "scripts_need_package": gettext_noop(
        "Scripts need a MegEngine that is installed as a Python package; this device has none."
    ),
    "script_runtime": gettext_noop(
        "MegEngine %(version)s on this device is a compiled load_and_run, without the Python that "
        "a script needs. Choose a version that is a Python package."
    ),
    # why an attempt ended
    "order_invalid": gettext_noop("The request is invalid: %(cause)s"),
    "cancelled_before_start": gettext_noop("Cancelled before the run started."),
    "cancelled_between_passes": gettext_noop("Cancelled between two passes."),
    "attempt_unknown": gettext_noop("The device does not have this attempt."),
    "disk_full": gettext_noop("The disk of this device is full."),
    "time_limit": gettext_noop("Stopped after %(seconds)s s."),
    "cpu_time_limit": gettext_noop(
        "It used more CPU time than its time limit multiplied by the number of cores."
    ),
    "file_limit": gettext_noop("A file reached the size limit."),
    "file_limit_of": gettext_noop("The file %(name)s reached the size limit of %(limit)s."),
    "process_limit": gettext_noop(
        "%(count)s processes ran at the same time; the limit is %(limit)s."
    ),
    "output_limit": gettext_noop("It printed %(size)s; the limit is %(limit)s."),
    "disk_limit": gettext_noop("It wrote %(size)s into its folder; the limit is %(limit)s."),
    "file_count_limit": gettext_noop("It created more than %(limit)s files."),
    "folders_deep": gettext_noop(
        "It created folders more than %(limit)s levels deep, so its disk usage cannot be measured."
    ),
    "folder_unreadable": gettext_noop(
        "It created a folder that cannot be read (%(cause)s), so its disk usage cannot be measured."
    ),
    "memory_limit": gettext_noop("It used %(size)s of memory; the limit is %(limit)s."),
    "silence_limit": gettext_noop("It neither printed nor computed anything for %(seconds)s s."),
    "no_profile": gettext_noop("load_and_run wrote no profile."),
    "nothing_timed": gettext_noop("load_and_run timed no iteration."),
    "no_trace": gettext_noop(
        "MegEngine’s Profiler wrote no %(format)s. The script did not import megengine, or it "
        "ended in a way that the Profiler cannot handle (os._exit, exec, a crash at the end)."
    ),
    "trace_limit": gettext_noop(
        "The size of %(name)s is %(size)s; the limit is %(limit)s. Record less."
    ),
    "option_no_file": gettext_noop("--%(option)s wrote no file."),
    "option_file_limit": gettext_noop("--%(option)s wrote %(size)s; the limit is %(limit)s."),
    "artifacts_limit": gettext_noop("All files together exceed %(limit)s."),
    # transfers
    "download_slow": gettext_noop("The files did not arrive within %(seconds)s s."),
    "file_replaced": gettext_noop("%(name)s was replaced during the download."),
    "file_digest": gettext_noop("%(name)s: the MD5 checksum differs from the announced one."),
    "file_size": gettext_noop("%(name)s: received %(size)s bytes instead of %(expected)s bytes."),
    "file_failed": gettext_noop("%(name)s: %(cause)s"),
    "storage_status": gettext_noop("%(name)s: storage responded with HTTP status %(status)s."),
    "storage_forbidden": gettext_noop(
        "%(name)s: storage responded with HTTP status %(status)s: the URL has expired or was "
        "refused."
    ),
    "storage_connection": gettext_noop("%(name)s: no connection to storage (%(cause)s)."),
    "no_upload_urls": gettext_noop("The server did not provide URLs for the uploads."),
    "no_upload_url": gettext_noop("%(name)s: the server did not provide an upload URL."),
    "file_refused": gettext_noop("%(name)s was refused: %(problem)s"),
    "refused_name": gettext_noop("files with this name are not stored"),
    "refused_size": gettext_noop("it has %(size)s bytes; the limit is %(limit)s bytes"),
    "refused_total": gettext_noop(
        "all files together would have %(size)s bytes; the limit is %(limit)s bytes"
    ),
    # inputs that only a device can reject; `webprofile.messages.errors` has the others
    "input_literal": gettext_noop("Input “%(name)s”: %(problem)s"),
    "input_not_a_file": gettext_noop("“%(name)s” is not a file."),
    "input_unreadable": gettext_noop("“%(name)s” cannot be read: %(cause)s"),
    "input_suffix": gettext_noop(
        "“%(name)s” is not a .npy, .json, .ppm or .pgm file. Save the array with numpy.save."
    ),
    "inputs_unknown": gettext_noop(
        "This version of load_and_run cannot list the inputs of the model, so no random values can "
        "be generated. Provide each input, or choose MegEngine 1.5 or later."
    ),
    "input_random_shape": gettext_noop(
        "The shape of the random input “%(name)s” is unknown. Enter a shape."
    ),
    "input_random_dtype": gettext_noop(
        "Random values of type %(dtype)s cannot be generated. Provide the input “%(name)s” as a "
        "file."
    ),
    "input_random_type": gettext_noop(
        "The type of the random input “%(name)s” is unknown. Provide it as a file."
    ),
    "input_random_type_binary": gettext_noop(
        "The type of the random input “%(name)s” is unknown: a compiled load_and_run does not "
        "report the types float16 and int64, and cannot read them. Choose another device or "
        "model."
    ),
    "input_repeated": gettext_noop("Input “%(name)s” is given twice. Give each input once."),
    "input_wrong_dtype": gettext_noop(
        "Input “%(name)s” is %(dtype)s %(shape)s, but the model expects %(expected)s "
        "%(expected_shape)s. %(advice)s"
    ),
    "advice_point": gettext_noop(
        "Write at least one of the numbers with a decimal point, such as 1.0: then all of them "
        "are float32."
    ),
    "advice_file": gettext_noop(
        "Provide it as a file of type %(dtype)s: numbers that are typed in are float32 or int32."
    ),
    "advice_random": gettext_noop(
        "Choose %(dtype)s, or leave the type empty to use the type of the model."
    ),
    "advice_save": gettext_noop("Save it as %(dtype)s, for example with astype."),
    "input_too_large": gettext_noop(
        "Input “%(name)s” of %(dtype)s %(shape)s needs %(size)s bytes, which is more than this "
        "device has available. Choose a smaller shape or batch."
    ),
    "input_name_invalid": gettext_noop(
        "The input name %(name)s cannot be used: names have 1 to %(limit)s printable characters. "
        "Rename the input when you dump the model."
    ),
    "input_name_separator": gettext_noop(
        "The input name %(name)s cannot be used: a compiled load_and_run splits names at “:” and "
        "“;”. Choose a device with the Python package, or rename the input when you dump the model."
    ),
    "input_none": gettext_noop("Input “%(name)s” is given, but the model has no inputs."),
    "input_not_in_model": gettext_noop(
        "The model has no input “%(name)s”. Its inputs: %(inputs)s."
    ),
    # the files of a script
    "script_file_twice": gettext_noop(
        "%(name)s is a file of the task and is also in %(archive)s. Rename one of them."
    ),
    "script_entry": gettext_noop("%(archive)s does not contain %(entry)s. Its programs: %(names)s"),
    "script_unclear": gettext_noop(
        "%(archive)s contains several programs. Name the one to run: %(names)s"
    ),
    "script_none": gettext_noop("%(archive)s contains no Python file."),
    "zip_failed": gettext_noop("%(archive)s cannot be unpacked: %(cause)s"),
    "zip_directory": gettext_noop("The file list (zip directory) of %(archive)s is too long."),
    "zip_files": gettext_noop("%(archive)s has %(count)s files; the limit is %(limit)s."),
    "zip_size": gettext_noop(
        "The total size of the files in %(archive)s is %(size)s; the limit is %(limit)s."
    ),
    "zip_ratio": gettext_noop(
        "The files in %(archive)s are %(ratio)s times as large as the archive; the limit is "
        "%(limit)s times."
    ),
    "zip_twice": gettext_noop("%(archive)s contains %(name)s twice."),
    "zip_below_file": gettext_noop(
        "In %(archive)s, a folder in the path %(name)s has the same name as a file."
    ),
    "zip_characters": gettext_noop(
        "In %(archive)s, the name %(name)s has characters that are not allowed."
    ),
    "zip_outside": gettext_noop(
        "In %(archive)s, %(name)s would lie outside the folder of the program."
    ),
    "zip_path": gettext_noop("In %(archive)s, the path %(name)s is too long or too deep."),
    "zip_link": gettext_noop(
        "In %(archive)s, %(name)s is a link or a device file, not a regular file."
    ),
    "zip_encrypted": gettext_noop(
        "In %(archive)s, %(name)s is encrypted. Pack it without a password."
    ),
    "zip_method": gettext_noop(
        "In %(archive)s, %(name)s is compressed by a method other than deflate."
    ),
    "zip_length": gettext_noop(
        "In %(archive)s, the size of %(name)s differs by %(count)s bytes from the size in the zip "
        "directory."
    ),
}


def _reduced(value: Any, depth: int = _DEEPEST) -> Any:
    """Limit a value in length and depth, and replace what cannot be sent or stored.

    PostgreSQL cannot store NUL, and a frame is UTF-8, which names of files need not be.
    """
    if isinstance(value, Note):
        value = value.model_dump()
    if isinstance(value, str):
        clean = value[:LONGEST_VALUE].replace("\x00", "\ufffd")
        return clean.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {
            _reduced(str(name)[:_LONGEST_NAME]): _reduced(value[name], depth - 1)
            for name in islice(value, _MOST_VALUES if depth else 0)
        }
    return None if isinstance(value, list) else value


class Note(BaseModel):
    """A statement of an agent: a code, and the values of the placeholders in its text.

    A value may be another note. `str` returns the English text; if only the server has a text of
    the code, it returns the code and the values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str = Field(max_length=40)
    values: Annotated[LimitedJson, BeforeValidator(_reduced)] = Field(default_factory=dict)

    @classmethod
    def of(cls, code: str, **values: "str | float | Note") -> Self:
        """Return a note; texts, such as names in a model, are cut to `LONGEST_VALUE` characters."""
        return cls(code=code, values=values)

    def __str__(self) -> str:
        if self.code not in TEXTS:
            return f"{self.code} {self.values}"
        return text_of(self.model_dump(), TEXTS)


def text_of(note: Mapping[str, Any], texts: Mapping[str, Any]) -> str:
    """Return the text of a note in JSON: that of its code in `texts`, with its values.

    If there is no text, or a value is missing, return the code.
    """
    values = {
        name: text_of(value, texts) if isinstance(value, Mapping) else _shown(value)
        for name, value in (note.get("values") or {}).items()
    }
    code = str(note.get("code", ""))
    try:
        return str(texts[code]) % values
    except (KeyError, TypeError, ValueError):
        return code


def _shown(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value
