"""Results of tasks, and the window in which their pages do not scroll."""

from agent.protocol.measurement import Disturbance, PassRecord
from agent.protocol.plan import Plan
from profiles.models import Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import measurement_json, profiled_pass
from profiles.tests.pages import ended_attempt
from profiles.tests.passes import another_pass
from testdata import good_profile

LAPTOP = (1440, 900)
PLAN = Plan(preset="standard", clean=True, profiled=2)


def make_measured(owner, *disturbances: Disturbance) -> str:
    """Make a result of a task with a title and options; return its path."""
    first = good_profile("resnet18")
    clean = PassRecord(number=1, kind="clean", e2e_ms=(40.0, 42.0, 41.0) * 10, exit_code=0)
    passes = (
        clean,
        profiled_pass(2, 43.0, profile="profile.json"),
        profiled_pass(3, 44.0, profile="profile-2.json"),
    )
    files = {
        "profile.json": first,
        "profile-2.json": another_pass(first, 1),
        "measurement.json": measurement_json(*passes, plan=PLAN, disturbances=disturbances),
    }
    options = {"fast_run": True, "iter": 20}
    attempt = ended_attempt(files, owner, plan=PLAN, title="Nightly resnet", options=options)
    build_attempt_profile(attempt)
    return f"/tasks/{attempt.task_id}/"


def make_disturbed(owner) -> str:
    address = make_measured(owner, Disturbance(code="other_load", detail="cc1plus 80 %"))
    Profile.objects.update(warnings=["weights were not preprocessed", "a layout is unknown"])
    return address
