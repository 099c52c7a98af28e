"""Freed memory is kept for the next step instead of going back to the system.

A training step on a CPU frees and asks again for the same hundreds of megabytes. By default glibc gives such blocks
back at once, and each page then comes anew from the kernel, zeroed, which took a tenth of the step and more where it
was measured. Nothing that is computed changes.

The GPU's allocator stays as torch has it, or as PYTORCH_ALLOC_CONF says. Its `expandable_segments`
would hold less memory while lists of many lengths are scored; but what is held beyond what is used
is given back where memory runs short, so no run needs it, while torch calls it experimental and
drivers of virtual GPUs may lack what it takes.
"""

from __future__ import annotations

import ctypes
import sys

# Of glibc's malloc.h. Blocks up to 32 MiB, the most it allows, come from its heap; a heap shrinks above 1 GiB of slack.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_THRESHOLD, _TRIM_THRESHOLD = 32 << 20, 1 << 30


def keep_freed_memory() -> bool:
    """Ask the allocator of this process, and of those that it forks, to keep what is freed; False where it cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)
    )
