"""Devices by a text, as pages and programs look for them."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from workers.models import Pool, Runtime, Worker

_FACTS = ("cpu_model", "gpus", "platform")
#: where a device stands in the network is for administrators
_PRIVATE = ("hostname", "ip")


def workers_saying(
    workers: "QuerySet[Worker]", text: str, *, private: bool = False
) -> "QuerySet[Worker]":
    """Those with the text in their name, processor, GPUs, platform, or a version that begins so.

    private: also by host name and address, and by the pools that they are in
    """
    with_version = Runtime.objects.filter(worker=OuterRef("pk"), version__startswith=text)
    says = Q(name__icontains=text) | Q(Exists(with_version))
    for fact in (*_FACTS, *(_PRIVATE if private else ())):
        says |= Q(**{f"facts__{fact}__icontains": text})
    if private:
        says |= Q(Exists(Pool.objects.filter(workers=OuterRef("pk"), name__icontains=text)))
    return workers.filter(says)
