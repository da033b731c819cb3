"""Peak performance of a profile's device, for the roofline and the recommendations."""

import datetime

from django.utils.translation import gettext

from profiles.analysis.roofline import Roofs
from profiles.models import Profile
from workers.models import Runtime

#: options that make a CPU compute in several threads; the peak performance is that of one thread
_THREADS = ("multithread", "multithread_default")


def roofs_of(profile: Profile, *, on_gpu: bool = False) -> Roofs | None:
    """Return the peak performance of the task's device, measured with its version of MegEngine.

    None for an import, if it was not measured, and for a run in several threads.
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
    peaks = runtime.roofs_of("cuda" if on_gpu else "cpu") if runtime else None
    if peaks is None:
        return None
    day = datetime.datetime.fromtimestamp(peaks.measured_at, datetime.UTC).date()
    return Roofs(
        peak_flops=peaks.peak_flops,
        copy_bytes_s=peaks.copy_bytes_s,
        source=gettext("matrix products and copies, measured on %(date)s on this device.")
        % {"date": day.isoformat()},
    )
