"""Python's garbage collector in a process that serves."""

import gc

#: new objects that begin a collection, and collections that begin the next larger one; Python's own
#: are 700, 10 and 10, nearly all of what a request makes is freed without any
_YOUNG = 20_000
_MIDDLE = _OLD = 20


def loaded_spare() -> None:
    """Leave alone, for good, all that is loaded so far, and look for cycles less often.

    For the end of a server's start. What Django, its applications and boto3 are made of is 0.2
    million objects, none of which is ever freed; to walk them takes 0.1 s, in which the whole
    process stands still.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
