"""What the device of a profile reaches at best, for the roofline and the advice."""

import datetime

from django.utils.translation import gettext

from profiles.analysis.roofline import Roofs
from profiles.models import Profile
from workers.models import Runtime
from workers.peak_performance import roofs_for

#: with these a CPU computes in several threads; the roofs are those of one
_THREADS = ("multithread", "multithread_default")


def roofs_of(profile: Profile, *, on_gpu: bool = False) -> Roofs | None:
    """The roofs of the task's device, as measured with its version of MegEngine.

    None for an opened profile, if they were not measured, and for a run in several threads.
    """
    if profile.attempt is None:
        return None
    task = profile.attempt.task
    several = any(int(task.options.get(name) or 0) > 1 for name in _THREADS)
    if several and not on_gpu:
        return None
    runtime = Runtime.objects.filter(
        worker=profile.attempt.worker_id, version=task.runtime_version
    ).first()
    found = roofs_for(runtime.roofs, "cuda" if on_gpu else "cpu") if runtime else None
    if found is None:
        return None
    day = datetime.datetime.fromtimestamp(found.measured_at, datetime.UTC).date()
    return Roofs(
        peak_flops=found.peak_flops,
        copy_bytes_s=found.copy_bytes_s,
        source=gettext("matrix products and copies, measured on %(date)s on this device.")
        % {"date": day.isoformat()},
    )
