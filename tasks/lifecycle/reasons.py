"""Reasons why a task did not succeed: code, blame, and the user-facing message with a fix."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from django.utils.translation import gettext_lazy as _

from tasks.models import Task
from workers.models import Worker


class Blame(Enum):
    USER = "user"
    DEVICE = "device"
    SERVER = "server"


# compared by identity: comparing lazy texts would translate them
@dataclass(frozen=True, eq=False)
class Wording:
    blame: Blame
    title: Any
    next_step: Any


TRY_AGAIN = _("Submit the task again. If it fails the same way, tell an administrator.")


class Reason(Enum):
    """The reasons with their messages; `code` is stored in the database."""

    CANCELLED_BY_USER = Wording(
        Blame.USER, _("Cancelled."), _("No action needed. Submit a new task at any time.")
    )
    UPLOAD_ABANDONED = Wording(
        Blame.USER,
        _("The upload was never completed."),
        _("Start a new task and keep the page open until all files have arrived."),
    )
    COPY_FAILED = Wording(
        Blame.SERVER,
        _("The files of the earlier task could not be reused."),
        _("Run the earlier task again in a minute, or start a new task and choose the files."),
    )
    QUEUE_TIMED_OUT = Wording(
        Blame.DEVICE,
        _("The task waited too long for its device."),
        _("Choose a device with fewer waiting tasks, or try again later."),
    )
    WORKER_WENT_OFFLINE = Wording(
        Blame.DEVICE,
        _("The device went offline and did not come back."),
        _("Choose another device, or ask an administrator to check this one."),
    )
    RUNTIME_WENT_AWAY = Wording(
        Blame.DEVICE,
        _("The device no longer offers this MegEngine version."),
        _("Choose another version or another device."),
    )
    WORKER_DISABLED = Wording(
        Blame.DEVICE,
        _("The device was taken out of service by an administrator."),
        _("Choose another device, or ask an administrator when this one will be available again."),
    )
    WORKER_RETIRED = Wording(
        Blame.DEVICE,
        _("The device has been retired."),
        _("Choose another device and submit the task again."),
    )
    PROFILE_TOO_LARGE = Wording(
        Blame.USER,
        _("The profile exceeds the size limit of this site."),
        _("Download the raw profile and read it with megengine.tools.profile_analyze."),
    )
    PROFILE_TOO_HEAVY = Wording(
        Blame.USER,
        _("Reading the profile exceeds the memory or time limit of this site."),
        _(
            "Download the raw profile and read it with megengine.tools.profile_analyze, or ask an "
            "administrator to raise the limits PROFILE_PARSE_MEMORY_BYTES and PROFILE_PARSE_TIME_S."
        ),
    )
    PROFILE_TIMED_OUT = Wording(
        Blame.SERVER,
        _("Reading the profile took too long and was stopped."),
        _("Download the raw profile and the log, and report them with this task’s number."),
    )
    MODEL_INVALID = Wording(
        Blame.USER,
        _("MegEngine cannot read the model file."),
        _(
            "Check that it is a complete .mge file, dumped by a MegEngine no newer than the chosen "
            "version."
        ),
    )
    MODEL_REFUSED = Wording(
        Blame.USER,
        _("The file is not a model that can be run."),
        _("The message below describes the file and the next step."),
    )
    MODEL_TOO_NEW = Wording(
        Blame.USER,
        _("The model was dumped by a newer MegEngine than the chosen version."),
        _("Choose a newer MegEngine version, or dump the model with an older one."),
    )
    INPUT_WRONG = Wording(
        Blame.USER,
        _("An input is not valid for the model."),
        _("The message below names the input and the problem with its name or data."),
    )
    INPUT_MISSING = Wording(
        Blame.USER,
        _("An input of the model has no data."),
        _(
            "Add a file, numbers or random values for each input that is named in the message or "
            "the log."
        ),
    )
    INPUT_UNKNOWN = Wording(
        Blame.USER,
        _("The model has no input of the given name."),
        _("Use one of the names that the message below lists."),
    )
    INPUT_SHAPE = Wording(
        Blame.USER,
        _("The shape of an input does not match the model."),
        _(
            "Compare the shapes in the message below with those of the model. The inputs must "
            "also match each other."
        ),
    )
    INPUT_DTYPE = Wording(
        Blame.USER,
        _("The data type of an input does not match the model."),
        _("Convert the array, for example with astype, and save it again with numpy.save."),
    )
    INPUT_UNREADABLE = Wording(
        Blame.USER,
        _("A data file cannot be read."),
        _("Save the array again with numpy.save, one file per input, and upload it again."),
    )
    OPTION_UNSUPPORTED = Wording(
        Blame.USER,
        _("An option cannot be combined with this model, this device or another option."),
        _("Remove the option that the message below describes, and run again."),
    )
    OPTIMIZATION_FAILED = Wording(
        Blame.USER,
        _("A graph optimization option fails on this model."),
        _(
            "Remove the layout, fusion and dtype options and optimize_for_inference: the model "
            "may run without them. Some models with BatchNorm fail with a layout option alone, "
            "but run if optimize_for_inference is also on."
        ),
    )
    OPERATOR_UNSUPPORTED = Wording(
        Blame.USER,
        _("The device has no implementation for an operator of the model."),
        _("Choose another device or MegEngine version, or another data type for this operator."),
    )
    VALUE_OUT_OF_RANGE = Wording(
        Blame.USER,
        _("A value exceeded the limit set by the option “range”."),
        _(
            "The message below gives the name of the variable. Check the variable, or choose a "
            "larger limit."
        ),
    )
    GPU_MISSING = Wording(
        Blame.DEVICE,
        _("The run needs a GPU, but the device has none."),
        _("Remove the option cuda, or choose a device with an NVIDIA GPU and its driver."),
    )
    OUT_OF_DEVICE_MEMORY = Wording(
        Blame.USER,
        _("The run needed more memory than the GPU has free."),
        _("Use a smaller batch or model, or a device whose GPU has more memory."),
    )
    SILENT = Wording(
        Blame.USER,
        _("The run was stopped: it printed nothing and used no CPU time for too long."),
        _(
            "The run probably hung. Remove the options that you added last, or choose another "
            "version."
        ),
    )
    OUTPUT_TOO_LARGE = Wording(
        Blame.USER,
        _("The run wrote more to disk than is allowed."),
        _("Remove options that dump values, or dump less by using a smaller batch or model."),
    )
    LOG_TOO_LONG = Wording(
        Blame.USER,
        _("The run printed more than is allowed."),
        _("Remove verbose and options that print values, or use fewer iterations."),
    )
    TOO_MANY_PROCESSES = Wording(
        Blame.USER,
        _("The run started more processes or threads than is allowed."),
        _("Use fewer threads."),
    )
    NO_SANDBOX = Wording(
        Blame.DEVICE,
        _("The device’s owner requires a sandbox, but the device cannot provide one."),
        _("Choose another device, or send the message below to the owner of this device."),
    )
    FILE_MISSING = Wording(
        Blame.USER,
        _("The run succeeded, but an option did not write its file."),
        _("Remove the option, or check the log for the cause."),
    )
    MEASUREMENT_MISSING = Wording(
        Blame.SERVER, _("The measurement did not arrive in storage."), TRY_AGAIN
    )
    MEASUREMENT_UNREADABLE = Wording(
        Blame.SERVER,
        _("The measurement cannot be read."),
        _("Download measurement.json and the log, and report them with this task’s number."),
    )
    OUT_OF_MEMORY = Wording(
        Blame.USER,
        _("The run needed more memory than the device allows."),
        _("Use a smaller batch or model, or a device with more memory."),
    )
    OPTION_UNKNOWN = Wording(
        Blame.DEVICE,
        _("This device’s load_and_run does not know one of the options."),
        _("Leave the option out, or choose another MegEngine version."),
    )
    TIMED_OUT = Wording(
        Blame.USER,
        _("The run exceeded its time limit and was stopped."),
        _("Use fewer iterations or smaller data. If the model hangs, report it to its author."),
    )
    CRASHED = Wording(
        Blame.USER,
        _("The process crashed."),
        _("The log shows how far the run got. Try another MegEngine version or fewer options."),
    )
    RUN_FAILED = Wording(
        Blame.USER,
        _("load_and_run ended with an error."),
        _("The last lines of the log name the cause."),
    )
    REFUSED_BY_AGENT = Wording(
        Blame.DEVICE,
        _("The device refused the task."),
        _("The message below gives the reason."),
    )
    RUNTIME_MISSING = Wording(
        Blame.DEVICE,
        _("The device does not have this MegEngine version, or cannot start it."),
        _("Choose another version or another device."),
    )
    NO_PROFILE = Wording(
        Blame.USER,
        _("The run ended without writing a profile."),
        _(
            "MegEngine fails if a name in the model contains non-ASCII characters: use only ASCII "
            "names, and dump the model again. If this is not the cause, see the log."
        ),
    )
    PROFILE_UNREADABLE = Wording(
        Blame.SERVER,
        _("The profile that the run wrote cannot be read."),
        _("Download the raw profile and the log, and report them with this task’s number."),
    )
    NOTHING_TIMED = Wording(
        Blame.USER,
        _("The model ran, but no times were recorded."),
        _("The message below says which times are missing; the log shows what the run did."),
    )
    SCRIPT_UNREADABLE = Wording(
        Blame.USER,
        _("The file is not a program that can be run."),
        _("The message below gives the cause. Correct the file and start a new task with it."),
    )
    SCRIPTS_WITHDRAWN = Wording(
        Blame.DEVICE,
        _("The device no longer runs scripts."),
        _("Choose another device that runs scripts, or ask an administrator about this one."),
    )
    PROFILE_MISSING = Wording(Blame.SERVER, _("The profile did not arrive in storage."), TRY_AGAIN)
    DOWNLOAD_FAILED = Wording(
        Blame.SERVER, _("The device could not download the uploaded files."), TRY_AGAIN
    )
    FILE_CHANGED = Wording(
        Blame.SERVER,
        _("The file on the device differs from the file that you uploaded."),
        _("Upload the file again. If it fails the same way, tell an administrator."),
    )
    UPLOAD_FAILED = Wording(Blame.SERVER, _("The device could not upload the result."), TRY_AGAIN)
    AGENT_RESTARTED = Wording(
        Blame.DEVICE, _("The device’s agent was restarted during the run."), TRY_AGAIN
    )
    AGENT_ERROR = Wording(Blame.DEVICE, _("The device’s agent failed."), TRY_AGAIN)
    KILLED = Wording(Blame.DEVICE, _("The run was killed on the device several times."), TRY_AGAIN)
    LEASE_EXPIRED = Wording(
        Blame.DEVICE,
        _("The device stopped responding during the run."),
        _("Choose another device, or try again when this one is online."),
    )
    CANCELLED = Wording(Blame.DEVICE, _("The device’s agent stopped the run."), TRY_AGAIN)
    AGENT_FORGOT = Wording(
        Blame.DEVICE, _("The device no longer had the task when it reconnected."), TRY_AGAIN
    )

    @property
    def code(self) -> str:
        """The name in lower case, such as `timed_out`."""
        return self.name.lower()


#: messages for scripts; reasons that are missing here use their own
SCRIPT_WORDINGS: dict[Reason, Wording] = {
    Reason.RUN_FAILED: Wording(
        Blame.USER,
        _("The script ended with an error."),
        _(
            "The message below gives the cause; the end of the output shows where it occurred. "
            "Scripts run without network, with the uploaded files and MegEngine’s own packages "
            "only."
        ),
    ),
    Reason.CRASHED: Wording(
        Blame.USER,
        _("The script’s process crashed."),
        _(
            "The output shows how far the script got. Try another MegEngine version, or one "
            "format at a time."
        ),
    ),
    Reason.TIMED_OUT: Wording(
        Blame.USER,
        _("The script exceeded its time limit and was stopped."),
        _("Run fewer steps: a trace of a few steps is more useful than one of thousands."),
    ),
    Reason.SILENT: Wording(
        Blame.USER,
        _("The script was stopped: it printed nothing and used no CPU time for too long."),
        _(
            "The script is probably waiting for input, for a lock, or for the network, which "
            "scripts cannot use."
        ),
    ),
    Reason.OUTPUT_TOO_LARGE: Wording(
        Blame.USER,
        _("The script wrote more to disk than is allowed."),
        _("Write less, or run fewer steps: the trace counts towards the limit, too."),
    ),
    Reason.LOG_TOO_LONG: Wording(
        Blame.USER,
        _("The script printed more than is allowed."),
        _("Print less, for example not at every step."),
    ),
    Reason.TOO_MANY_PROCESSES: Wording(
        Blame.USER,
        _("The script started more processes or threads than is allowed."),
        _("Start fewer processes, for example no data loader workers."),
    ),
    Reason.OUT_OF_MEMORY: Wording(
        Blame.USER,
        _("The script needed more memory than the device allows."),
        _("Use a smaller batch or fewer steps, or a device with more memory."),
    ),
    Reason.OUT_OF_DEVICE_MEMORY: Wording(
        Blame.USER,
        _("The script needed more memory than the GPU has free."),
        _("Use a smaller batch, or a device whose GPU has more memory."),
    ),
    Reason.GPU_MISSING: Wording(
        Blame.USER,
        _("The script needs a GPU, but the device has none."),
        _(
            "Let MegEngine choose the computing device itself, or choose a device with an NVIDIA "
            "GPU."
        ),
    ),
    Reason.NO_PROFILE: Wording(
        Blame.USER,
        _("The script ended without a recording."),
        _(
            "The script must compute something with MegEngine in its own process and exit "
            "normally. A program that calls os._exit, or computes in child processes, leaves no "
            "trace."
        ),
    ),
    Reason.NO_SANDBOX: Wording(
        Blame.DEVICE,
        _("The device has no working sandbox, which scripts require."),
        _("Choose another device, or send the message below to the owner of this device."),
    ),
    Reason.REFUSED_BY_AGENT: Wording(
        Blame.DEVICE,
        _("The device refused the script."),
        _("The message below gives the reason."),
    ),
    Reason.NOTHING_TIMED: Wording(
        Blame.USER,
        _("The script ran, but the times of its operators cannot be used."),
        _("Run it again. If it fails the same way, report it with the number of this task."),
    ),
    Reason.PROFILE_MISSING: Wording(
        Blame.SERVER, _("The trace did not arrive in storage."), TRY_AGAIN
    ),
    Reason.PROFILE_UNREADABLE: Wording(
        Blame.SERVER,
        _("The trace of the script cannot be read."),
        _("Download the trace and the output, and report them with this task’s number."),
    ),
    Reason.PROFILE_TOO_LARGE: Wording(
        Blame.USER,
        _("The trace exceeds the size limit of this site."),
        _("Run fewer steps. You can download the trace."),
    ),
    Reason.PROFILE_TOO_HEAVY: Wording(
        Blame.USER,
        _("Reading the trace exceeds the memory or time limit of this site."),
        _("Run fewer steps. You can download the trace."),
    ),
    Reason.PROFILE_TIMED_OUT: Wording(
        Blame.SERVER,
        _("The trace was not read in time."),
        _("Download the trace and the output, and report them with this task’s number."),
    ),
}


def wording_of(code: str) -> Wording | None:
    """Return the message for a reason code; None for the empty or an unknown code."""
    reason = Reason.__members__.get(code.upper())
    return reason.value if reason else None


def wording_for(task: Task) -> Wording | None:
    """Return the message why a task did not succeed, or None if it has no reason."""
    reason = Reason.__members__.get(task.reason.upper())
    if reason is None:
        return None
    return SCRIPT_WORDINGS.get(reason, reason.value) if task.is_script else reason.value


def held_words(worker: Worker) -> str:
    """Return the user-facing reason why a device is quarantined, or "" if it is not.

    The message is that of the last failed health check, if its reason code is known; otherwise it
    is the text stored with the device.
    """
    if worker.held_at is None:
        return ""
    wording = wording_of(worker.failed_check_reason)
    return str(wording.title) if wording else worker.held_reason
