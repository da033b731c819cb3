"""Devices by a text, as pages and programs look for them."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from workers.models import Runtime, Worker

_FACTS = ("cpu_model", "gpus", "platform")


def workers_saying(workers: "QuerySet[Worker]", text: str) -> "QuerySet[Worker]":
    """Those with the text in their name, processor, GPUs, platform, or a version that begins so."""
    with_version = Runtime.objects.filter(worker=OuterRef("pk"), version__startswith=text)
    says = Q(name__icontains=text) | Q(Exists(with_version))
    for fact in _FACTS:
        says |= Q(**{f"facts__{fact}__icontains": text})
    return workers.filter(says)
