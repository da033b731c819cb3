"""Settings of Python's garbage collector for server processes."""

import gc

#: Thresholds of the collector; Python's defaults are 700, 10 and 10. Nearly all objects of a
#: request are freed by reference counting.
_YOUNG = 20_000
_MIDDLE = _OLD = 20


def loaded_spare() -> None:
    """Exclude all objects that exist now from garbage collection, and collect less often.

    Call it at the end of a server's start. Django, the apps and boto3 consist of 0.2 million
    objects that are never freed; walking them would pause the whole process for 0.1 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
