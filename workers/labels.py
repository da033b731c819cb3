"""What a device is labelled with: what its owner wrote, and above it what administrators set."""

from workers.models import Worker


def labels_of(worker: Worker) -> dict[str, str]:
    """Name and value, by name. A label that an administrator set hides the device's own.

    The device's own come from `[labels]` of its agent's configuration, with the hello.
    """
    own = worker.facts.get("labels")
    merged = {**(own if isinstance(own, dict) else {}), **worker.labels}
    return {str(name): str(value) for name, value in sorted(merged.items())}
