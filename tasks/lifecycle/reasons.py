"""Reasons why a task did not succeed: code, blame, and the user-facing message with a fix."""

from enum import Enum
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from workers.models import HealthCheck, Worker


class Blame(Enum):
    USER = "user"
    DEVICE = "device"
    SERVER = "server"


class Wording(NamedTuple):
    blame: Blame
    title: Any
    next_step: Any


class Reason(Enum):
    """Reason codes, as the database stores them."""

    CANCELLED_BY_USER = "cancelled_by_user"
    UPLOAD_ABANDONED = "upload_abandoned"
    COPY_FAILED = "copy_failed"
    QUEUE_TIMED_OUT = "queue_timed_out"
    WORKER_WENT_OFFLINE = "worker_went_offline"
    RUNTIME_WENT_AWAY = "runtime_went_away"
    MODEL_INVALID = "model_invalid"
    MODEL_TOO_NEW = "model_too_new"
    INPUT_WRONG = "input_wrong"
    INPUT_MISSING = "input_missing"
    INPUT_UNKNOWN = "input_unknown"
    INPUT_SHAPE = "input_shape"
    INPUT_DTYPE = "input_dtype"
    INPUT_UNREADABLE = "input_unreadable"
    OPTION_UNSUPPORTED = "option_unsupported"
    OPTIMIZATION_FAILED = "optimization_failed"
    OPERATOR_UNSUPPORTED = "operator_unsupported"
    VALUE_OUT_OF_RANGE = "value_out_of_range"
    GPU_MISSING = "gpu_missing"
    OUT_OF_DEVICE_MEMORY = "out_of_device_memory"
    SILENT = "silent"
    OUTPUT_TOO_LARGE = "output_too_large"
    LOG_TOO_LONG = "log_too_long"
    TOO_MANY_PROCESSES = "too_many_processes"
    NO_SANDBOX = "no_sandbox"
    FILE_MISSING = "file_missing"
    MEASUREMENT_MISSING = "measurement_missing"
    MEASUREMENT_UNREADABLE = "measurement_unreadable"
    WORKER_DISABLED = "worker_disabled"
    WORKER_RETIRED = "worker_retired"
    PROFILE_TOO_LARGE = "profile_too_large"
    PROFILE_TOO_HEAVY = "profile_too_heavy"
    PROFILE_TIMED_OUT = "profile_timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OPTION_UNKNOWN = "option_unknown"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    RUN_FAILED = "run_failed"
    REFUSED_BY_AGENT = "refused_by_agent"
    RUNTIME_MISSING = "runtime_missing"
    NO_PROFILE = "no_profile"
    PROFILE_UNREADABLE = "profile_unreadable"
    PROFILE_MISSING = "profile_missing"
    NOTHING_TIMED = "nothing_timed"
    SCRIPT_UNREADABLE = "script_unreadable"
    SCRIPTS_WITHDRAWN = "scripts_withdrawn"
    # infrastructure, after the last attempt
    DOWNLOAD_FAILED = "download_failed"
    UPLOAD_FAILED = "upload_failed"
    AGENT_RESTARTED = "agent_restarted"
    AGENT_ERROR = "agent_error"
    LEASE_EXPIRED = "lease_expired"
    AGENT_FORGOT = "agent_forgot"
    KILLED = "killed"
    CANCELLED = "cancelled"


TRY_AGAIN = _("Send the task again; if it ends like this once more, tell an administrator.")

WORDINGS: dict[Reason, Wording] = {
    Reason.CANCELLED_BY_USER: Wording(
        Blame.USER, _("Cancelled."), _("Nothing to do; start a new task when you want to.")
    ),
    Reason.UPLOAD_ABANDONED: Wording(
        Blame.USER,
        _("The upload was never completed."),
        _("Start a new task and keep the page open until all files have arrived."),
    ),
    Reason.COPY_FAILED: Wording(
        Blame.SERVER,
        _("The stored files could not be taken over from an earlier task."),
        _("Run the earlier task again in a minute, or start a new task and choose the files."),
    ),
    Reason.QUEUE_TIMED_OUT: Wording(
        Blame.DEVICE,
        _("The task waited too long for its device."),
        _("Choose a device with fewer waiting tasks, or try again later."),
    ),
    Reason.WORKER_WENT_OFFLINE: Wording(
        Blame.DEVICE,
        _("The device went offline and did not come back."),
        _("Choose another device, or ask an administrator to look at this one."),
    ),
    Reason.RUNTIME_WENT_AWAY: Wording(
        Blame.DEVICE,
        _("The device no longer offers this MegEngine version."),
        _("Choose another version or another device."),
    ),
    Reason.WORKER_DISABLED: Wording(
        Blame.DEVICE,
        _("The device was taken out of service."),
        _("Choose another device, or ask an administrator when this one is back."),
    ),
    Reason.WORKER_RETIRED: Wording(
        Blame.DEVICE,
        _("The device was taken out of service for good."),
        _("Choose another device and send the task again."),
    ),
    Reason.PROFILE_TOO_LARGE: Wording(
        Blame.USER,
        _("The profile is larger than this site reads."),
        _("Download the raw profile and read it with megengine.tools.profile_analyze."),
    ),
    Reason.PROFILE_TOO_HEAVY: Wording(
        Blame.USER,
        _("Reading the profile takes more memory or time than this site allows."),
        _(
            "Download the raw profile and read it with megengine.tools.profile_analyze, or ask an "
            "administrator to raise the limits PROFILE_PARSE_MEMORY_BYTES and PROFILE_PARSE_TIME_S."
        ),
    ),
    Reason.PROFILE_TIMED_OUT: Wording(
        Blame.SERVER,
        _("The profile was not read in time."),
        _("Download the raw profile and the log, and report them with this task's number."),
    ),
    Reason.MODEL_INVALID: Wording(
        Blame.USER,
        _("MegEngine cannot read the model file."),
        _(
            "Check that it is a complete .mge file, dumped by a MegEngine no newer than the chosen "
            "version."
        ),
    ),
    Reason.MODEL_TOO_NEW: Wording(
        Blame.USER,
        _("The model was dumped by a newer MegEngine than the chosen version."),
        _("Choose a newer MegEngine version, or dump the model with an older one."),
    ),
    Reason.INPUT_WRONG: Wording(
        Blame.USER,
        _("A data file does not fit the model's inputs."),
        _("Compare name, dtype and shape with what the message below says that the model wants."),
    ),
    Reason.INPUT_MISSING: Wording(
        Blame.USER,
        _("An input of the model was given no data."),
        _("Add a file, numbers or random values for each input that the message or the log names."),
    ),
    Reason.INPUT_UNKNOWN: Wording(
        Blame.USER,
        _("The model has no input of the given name."),
        _("Give the data under one of the names that the message below lists."),
    ),
    Reason.INPUT_SHAPE: Wording(
        Blame.USER,
        _("The shape of an input does not fit the model."),
        _(
            "Compare the shapes in the message below with those the model was made for; the inputs "
            "must also fit each other."
        ),
    ),
    Reason.INPUT_DTYPE: Wording(
        Blame.USER,
        _("An input has another dtype than the model wants."),
        _("Convert the array, for example with astype, and save it again with numpy.save."),
    ),
    Reason.INPUT_UNREADABLE: Wording(
        Blame.USER,
        _("A data file cannot be read."),
        _("Save the array again with numpy.save, one file for each input, and upload it anew."),
    ),
    Reason.OPTION_UNSUPPORTED: Wording(
        Blame.USER,
        _("An option does not go with this model, this device or another option."),
        _("Leave out the option that the message below is about, and run again."),
    ),
    Reason.OPTIMIZATION_FAILED: Wording(
        Blame.USER,
        _("An option that optimizes the graph fails on this model."),
        _(
            "Leave out the layout, fusion and dtype options and optimize_for_inference: the model "
            "may run without them. A layout option alone fails on some models with BatchNorm that "
            "run with optimize_for_inference beside it."
        ),
    ),
    Reason.OPERATOR_UNSUPPORTED: Wording(
        Blame.USER,
        _("The device has no implementation for an operator of the model."),
        _("Choose another device or MegEngine version, or another dtype for this operator."),
    ),
    Reason.VALUE_OUT_OF_RANGE: Wording(
        Blame.USER,
        _("A value exceeded the limit of the option range."),
        _("The message below names the variable. Look into it, or choose a larger limit."),
    ),
    Reason.GPU_MISSING: Wording(
        Blame.DEVICE,
        _("The run asked for a GPU that the device does not have."),
        _("Leave out the option cuda, or choose a device with an NVIDIA GPU and its driver."),
    ),
    Reason.OUT_OF_DEVICE_MEMORY: Wording(
        Blame.USER,
        _("The run needed more memory than the GPU has free."),
        _("Use a smaller batch or model, or a device whose GPU has more memory."),
    ),
    Reason.SILENT: Wording(
        Blame.USER,
        _("The run said nothing and used no processor for too long, and was ended."),
        _("It probably hung. Try without the last options you added, or another version."),
    ),
    Reason.OUTPUT_TOO_LARGE: Wording(
        Blame.USER,
        _("The run wrote more to disk than is allowed."),
        _("Leave out options that dump values, or dump fewer: a smaller batch or model."),
    ),
    Reason.LOG_TOO_LONG: Wording(
        Blame.USER,
        _("The run printed more than is allowed."),
        _("Leave out verbose and options that print values, or use fewer iterations."),
    ),
    Reason.TOO_MANY_PROCESSES: Wording(
        Blame.USER,
        _("The run started more processes or threads than is allowed."),
        _("Ask for fewer threads."),
    ),
    Reason.NO_SANDBOX: Wording(
        Blame.DEVICE,
        _("The device cannot shut runs off from the rest of its system, which its owner wants."),
        _("Choose another device, or tell its owner what the message below says."),
    ),
    Reason.FILE_MISSING: Wording(
        Blame.USER,
        _("The run ended well without writing a file that an option promises."),
        _("Leave out the option, or look into the log for the reason."),
    ),
    Reason.MEASUREMENT_MISSING: Wording(
        Blame.SERVER, _("The measurement did not arrive in storage."), TRY_AGAIN
    ),
    Reason.MEASUREMENT_UNREADABLE: Wording(
        Blame.SERVER,
        _("The measurement cannot be read."),
        _("Download measurement.json and the log, and report them with this task's number."),
    ),
    Reason.OUT_OF_MEMORY: Wording(
        Blame.USER,
        _("The run needed more memory than the device allows."),
        _("Use a smaller batch or model, or a device with more memory."),
    ),
    Reason.OPTION_UNKNOWN: Wording(
        Blame.DEVICE,
        _("This device's load_and_run does not know one of the options."),
        _("Leave the option out, or choose another MegEngine version."),
    ),
    Reason.TIMED_OUT: Wording(
        Blame.USER,
        _("The run took longer than its time limit and was ended."),
        _(
            "Use fewer iterations or smaller data; a model that hangs is a fault to report to its "
            "author."
        ),
    ),
    Reason.CRASHED: Wording(
        Blame.USER,
        _("The process crashed."),
        _("The log shows how far it came. Try another MegEngine version or fewer options."),
    ),
    Reason.RUN_FAILED: Wording(
        Blame.USER,
        _("load_and_run ended with an error."),
        _("The last lines of the log name the cause."),
    ),
    Reason.REFUSED_BY_AGENT: Wording(
        Blame.DEVICE,
        _("The device refused the task."),
        _("The message below names what it refused."),
    ),
    Reason.RUNTIME_MISSING: Wording(
        Blame.DEVICE,
        _("The device does not have this MegEngine version, or cannot start it."),
        _("Choose another version or another device."),
    ),
    Reason.NO_PROFILE: Wording(
        Blame.USER,
        _("The run ended without writing a profile."),
        _(
            "A name in the model with characters outside ASCII makes MegEngine fail here: rename "
            "it and dump the model again. Otherwise the log shows the cause."
        ),
    ),
    Reason.PROFILE_UNREADABLE: Wording(
        Blame.SERVER,
        _("The profile that the run wrote cannot be read."),
        _("Download the raw profile and the log, and report them with this task's number."),
    ),
    Reason.NOTHING_TIMED: Wording(
        Blame.USER,
        _("The model ran, but its times were not taken."),
        _("The message below says which times are missing; the log shows what the run did."),
    ),
    Reason.SCRIPT_UNREADABLE: Wording(
        Blame.USER,
        _("The file is no program that can be run."),
        _("The message below names the cause. Mend the file and start a new task with it."),
    ),
    Reason.SCRIPTS_WITHDRAWN: Wording(
        Blame.DEVICE,
        _("The device does not run scripts any more."),
        _("Choose another device that runs scripts, or ask an administrator about this one."),
    ),
    Reason.PROFILE_MISSING: Wording(
        Blame.SERVER, _("The profile did not arrive in storage."), TRY_AGAIN
    ),
    Reason.DOWNLOAD_FAILED: Wording(
        Blame.SERVER, _("The device could not fetch the uploaded files."), TRY_AGAIN
    ),
    Reason.UPLOAD_FAILED: Wording(
        Blame.SERVER, _("The device could not store the result."), TRY_AGAIN
    ),
    Reason.AGENT_RESTARTED: Wording(
        Blame.DEVICE, _("The device's agent was restarted during the run."), TRY_AGAIN
    ),
    Reason.AGENT_ERROR: Wording(Blame.DEVICE, _("The device's agent failed."), TRY_AGAIN),
    Reason.KILLED: Wording(
        Blame.DEVICE, _("Somebody on the device killed the run, several times."), TRY_AGAIN
    ),
    Reason.LEASE_EXPIRED: Wording(
        Blame.DEVICE,
        _("The device fell silent during the run."),
        _("Choose another device, or try again when this one is online."),
    ),
    Reason.CANCELLED: Wording(
        Blame.DEVICE, _("The device's agent stopped the run by itself."), TRY_AGAIN
    ),
    Reason.AGENT_FORGOT: Wording(
        Blame.DEVICE, _("The device came back without the task."), TRY_AGAIN
    ),
}


def wording_of(code: str) -> Wording | None:
    """Return the message for a reason code; None for the empty or an unknown code."""
    try:
        return WORDINGS[Reason(code)]
    except ValueError:
        return None


def held_words(worker: Worker) -> str:
    """Return the user-facing reason why a device is held back, or "" if it is not.

    The message is that of the last failed health check, if its reason code is known; otherwise it
    is the text stored with the device.
    """
    if worker.held_at is None:
        return ""
    last = worker.health_checks.filter(result=HealthCheck.Result.FAILED).first()
    wording = wording_of(last.reason) if last else None
    return str(wording.title) if wording else worker.held_reason
