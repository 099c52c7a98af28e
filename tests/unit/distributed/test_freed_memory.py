"""Freed memory stays with the process: a page is requested from the system only once."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
from asdf.distributed.devices import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
import numpy as np
def work():
    # 120 MiB together; for arrays above 4 MiB numpy requests huge pages.
    blocks = [np.ones(3 << 17) for _ in range(40)]
    del blocks

for _ in range(3):
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip("another allocator than glibc's")
    return int(done.stdout)


def test_a_block_that_is_requested_again_brings_no_new_pages():
    assert page_faults("kept") < 1000 < 10_000 < page_faults("as it is")
