"""What happens right after a commit so that nobody waits for the sweep.

All of it is a hint: if it is lost, `tasks.sweeping` finds the same rows within seconds. The imports
inside the functions are on purpose: what a hint calls builds on the services that give it.
"""

from collections.abc import Collection

from django.db import transaction

from webprofile.meters import hint_given


def dispatch_on_commit(worker_ids: Collection[int]) -> None:
    """Have the dispatcher give these devices the next of their waiting tasks."""
    from tasks.actors import dispatch

    asked = sorted(worker_ids)

    def send() -> None:
        with hint_given("dispatch"):
            dispatch.send(asked)

    if asked:
        transaction.on_commit(send, robust=True)


def build_profile_on_commit(attempt_id: str) -> None:
    """Queue the reading of an attempt's files."""
    transaction.on_commit(lambda: build_profile_soon(attempt_id), robust=True)


def build_profile_soon(attempt_id: str) -> None:
    """The same here and now; what the broker raises passes through.

    `profiles` lies to the right of `tasks`.
    """
    from profiles.actors import build_profile

    with hint_given("build_profile"):
        build_profile.send(attempt_id)
