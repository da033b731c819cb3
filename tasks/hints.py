"""What happens right after a commit so that nobody waits for the sweep.

All of it is a hint: if it is lost, `tasks.sweeping` finds the same rows within seconds. The imports
inside the functions are on purpose: what a hint calls builds on the services that give it.
"""

from collections.abc import Collection, Sequence

from django.db import transaction

from tasks.announce import poke_workers_on_commit
from webprofile.meters import hint_given


def assign_on_commit(worker_ids: Collection[int]) -> None:
    """Have these workers given the next of their waiting tasks, where their agents listen.

    Not here: there it is done for all that several requests submit at the same moment, and the
    orders are sent at once. Nor through the broker: its consumer polls, and each look that finds
    nothing costs the machine more than the queries of an assignment.
    """
    poke_workers_on_commit(worker_ids)


def fill_slots_on_commit(worker_ids: Collection[int]) -> None:
    """Give them the next of their tasks here and now; most often nothing waits."""
    from tasks.queue.scheduling import assign_waiting, those_with_work

    def assign() -> None:
        with hint_given("assign"):
            if found := those_with_work(worker_ids):
                assign_waiting(found)

    transaction.on_commit(assign, robust=True)


def build_profiles_on_commit(attempt_ids: Sequence[str]) -> None:
    """Queue the reading of attempts' files.

    The first that the broker does not take is the last that it is asked for: one that is silent
    would hold up all of them, one after the other.
    """

    def build() -> None:
        for attempt_id in attempt_ids:
            build_profile_soon(attempt_id)

    transaction.on_commit(build, robust=True)


def build_profile_soon(attempt_id: str) -> None:
    """The same here and now; what the broker raises passes through.

    `profiles` lies to the right of `tasks`.
    """
    from profiles.actors import build_profile

    with hint_given("build_profile"):
        build_profile.send(attempt_id)
