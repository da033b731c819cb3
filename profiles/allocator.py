"""How a reader's process takes memory from the system, and gives it back."""

import ctypes

#: columns that are done with go back at once; by itself glibc raises the bound with each that is
#: freed, and keeps more and more of them (mallopt(3), M_MMAP_THRESHOLD)
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(64 << 10)}


def give_back() -> None:
    """Give back what is free between blocks that are in use (malloc_trim(3)); else glibc keeps it.

    With another C library nothing happens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
