"""How a reader's process takes memory from the system."""

#: columns that are done with go back at once; by itself glibc raises the bound with each that is
#: freed, and keeps more and more of them (mallopt(3), M_MMAP_THRESHOLD)
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(64 << 10)}
