"""Run tests as they would run on other processors than this one.

    python -m tests.other_cpus                                  # the tests of numbers
    python -m tests.other_cpus tests/unit/networks -n 2         # these, with pytest's options

Numbers of float32 differ in their last digits between processors: AVX2, AVX-512, AMX and neither of
them add in other orders. A tolerance that one processor just meets fails on the next. So pytest
runs once for each set of instructions to which torch, oneDNN and MKL can be held; more than this
processor has cannot be had.
"""

from __future__ import annotations

import os
import subprocess
import sys

SETS = {
    "plain": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "AVX2, MKL as it is": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    # No bfloat16 in hardware.
    "AVX-512 of its first generation": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
}
"""The variables of each set; none has what the processor as it is has."""

NUMBERS = (
    "tests/unit/networks",
    "tests/unit/training",
    "tests/unit/scoring",
    "tests/unit/metrics",
    "tests/unit/audio",
    "tests/recipes/test_whole_run.py",
    "tests/recipes/test_gradients.py",
)
"""The tests that hold numbers which a processor computes."""


def main(arguments: list[str]) -> int:
    """Run pytest under each set; return 1 if it failed under one of them."""
    failed = []
    for name, variables in SETS.items():
        print(f"== {name}: {' '.join(f'{key}={value}' for key, value in variables.items())}")
        command = [sys.executable, "-m", "pytest", "-q", *(arguments or NUMBERS)]
        if subprocess.run(command, env={**os.environ, **variables}).returncode:
            failed.append(name)
    print(f"== failed: {'; '.join(failed) if failed else 'under none of the sets'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
