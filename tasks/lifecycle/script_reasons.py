"""User-facing messages for reasons that read differently for scripts than for models."""

from django.utils.translation import gettext_lazy as _

from tasks.lifecycle.reasons import TRY_AGAIN, Blame, Reason, Wording, wording_of
from tasks.models import Task

#: messages for scripts; reasons that are missing here use `reasons.WORDINGS`
SCRIPT_WORDINGS: dict[Reason, Wording] = {
    Reason.RUN_FAILED: Wording(
        Blame.USER,
        _("The script ended with an error."),
        _(
            "The message below names the cause; the end of its output shows where. It runs without "
            "network, with the files that you uploaded and MegEngine’s own packages alone."
        ),
    ),
    Reason.CRASHED: Wording(
        Blame.USER,
        _("The script’s process crashed."),
        _(
            "Its output shows how far it came. Try another MegEngine version, or one format at a "
            "time, to see what the crash depends on."
        ),
    ),
    Reason.TIMED_OUT: Wording(
        Blame.USER,
        _("The script took longer than its time limit and was ended."),
        _("Let it run fewer steps: a trace of a few steps tells more than one of thousands."),
    ),
    Reason.SILENT: Wording(
        Blame.USER,
        _("The script said nothing and used no processor for too long, and was ended."),
        _("It probably waits for input, a lock or the network, which it does not have."),
    ),
    Reason.OUTPUT_TOO_LARGE: Wording(
        Blame.USER,
        _("The script wrote more to disk than is allowed."),
        _("Let it write less, or run fewer steps: the trace counts as well."),
    ),
    Reason.LOG_TOO_LONG: Wording(
        Blame.USER,
        _("The script printed more than is allowed."),
        _("Let it print less, for example not at every step."),
    ),
    Reason.TOO_MANY_PROCESSES: Wording(
        Blame.USER,
        _("The script started more processes or threads than is allowed."),
        _("Let it start fewer, for example no workers that load data."),
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
        _("The script asked for a GPU that the device does not have."),
        _("Let it choose its device by itself, or choose a device with an NVIDIA GPU."),
    ),
    Reason.NO_PROFILE: Wording(
        Blame.USER,
        _("The script ended without anything recorded."),
        _(
            "It has to compute something with MegEngine in its own process, and to end by itself: "
            "what calls os._exit, or computes in child processes, leaves no trace."
        ),
    ),
    Reason.NO_SANDBOX: Wording(
        Blame.DEVICE,
        _("The device has no sandbox that works, and runs scripts in one only."),
        _("Choose another device, or tell its owner what the message below says."),
    ),
    Reason.REFUSED_BY_AGENT: Wording(
        Blame.DEVICE,
        _("The device refused the script."),
        _("The message below names what it refused, and why."),
    ),
    Reason.NOTHING_TIMED: Wording(
        Blame.USER,
        _("The script ran, but the times of its operators cannot be used."),
        _("Run it again; if it ends like this once more, report it with this task's number."),
    ),
    Reason.PROFILE_MISSING: Wording(
        Blame.SERVER, _("The trace did not arrive in storage."), TRY_AGAIN
    ),
    Reason.PROFILE_UNREADABLE: Wording(
        Blame.SERVER,
        _("The trace that the script left cannot be read."),
        _("Download the trace and the output, and report them with this task's number."),
    ),
    Reason.PROFILE_TOO_LARGE: Wording(
        Blame.USER,
        _("The trace is larger than this site reads."),
        _("Let the script run fewer steps. The trace itself can be downloaded."),
    ),
    Reason.PROFILE_TOO_HEAVY: Wording(
        Blame.USER,
        _("Reading the trace takes more memory or time than this site allows."),
        _("Let the script run fewer steps. The trace itself can be downloaded."),
    ),
    Reason.PROFILE_TIMED_OUT: Wording(
        Blame.SERVER,
        _("The trace was not read in time."),
        _("Download the trace and the output, and report them with this task's number."),
    ),
}


def wording_for(task: Task) -> Wording | None:
    """Return the message why a task did not succeed, or None if it has no reason."""
    common = wording_of(task.reason)
    if common is None or not task.is_script:
        return common
    own: Wording | None = SCRIPT_WORDINGS.get(Reason(task.reason))
    return own or common
