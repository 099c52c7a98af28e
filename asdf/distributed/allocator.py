"""Keeping freed memory in the process for the next step, instead of returning it.

A training step on a CPU repeatedly frees and allocates hundreds of megabytes. By default, glibc
returns such blocks to the system at once, and the kernel has to zero each page again, which took a
tenth of the step or more in measurements. Results are not affected.

The GPU's allocator keeps torch's defaults, or PYTORCH_ALLOC_CONF. Its `expandable_segments` would
use less memory when scoring lists of many lengths, but torch calls them experimental, drivers of
virtual GPUs may not support them, and no run needs them: unused memory is released when memory runs
short.
"""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# Maximum block sizes for the heap: the limit of some versions, and that of all.
_MMAP_THRESHOLDS = (1 << 30, 32 << 20)
# Unused memory above which a heap shrinks.
_TRIM_THRESHOLD = 1 << 30


def keep_freed_memory() -> bool:
    """Let the allocator of this process, and of its forked processes, keep freed memory.

    Returns:
        Whether this is possible.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return False
    if not any(mallopt(_M_MMAP_THRESHOLD, threshold) for threshold in _MMAP_THRESHOLDS):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))
