"""Run tests as on other processors than this one: `python -m tests.other_cpus [PYTEST ARGUMENTS]`.

Numbers of float32 differ in their last digits between processors: AVX2, AVX-512 and AMX add in
other orders, and their libraries choose other kernels. torch, oneDNN and MKL can be held to fewer
instructions than the processor has; pytest runs once per set of them. Without arguments it runs the
tests of numbers, with `--short` a selection.
"""

import os
import subprocess
import sys
import tempfile

# torch's own kernels, oneDNN's and MKL's have a variable each, which they read when they start.
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
    # Sums of bf16 products without the instructions for them.
    "AVX-512 alone": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
}
NUMBERS = (
    "tests/unit/networks",
    "tests/unit/scoring",
    "tests/unit/training",
    "tests/unit/audio",
    "tests/unit/data",
    "tests/unit/metrics",
    "tests/unit/checkpoint",
    "tests/unit/tasks",
    "tests/unit/interchange",
    "tests/unit/benchmarks/test_same_work.py",
    "tests/recipes/test_whole_run.py",
    "tests/distributed/test_feature_cache.py",
)
# What has been seen to differ between processors, in about a minute per set.
SHORT = (
    "tests/extras/cpu",
    "tests/unit/scoring/test_computing.py",
    "tests/unit/scoring/test_detector.py",
    "tests/unit/training/test_cached_features.py",
    "tests/unit/training/test_passes.py",
    "tests/unit/training/test_optimisers.py",
    "tests/recipes/test_whole_run.py",
)
# pytest's status where a selection has no test.
_NONE_SELECTED = 5


def run_held(name: str, arguments: list[str]) -> int:
    """Run pytest with this Python, held to the set `name`; return its exit status."""
    print(f"== {name}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    with tempfile.TemporaryDirectory() as compiled:
        # torch's compiler would take code that it made for other instructions from its cache.
        own = {**SETS[name], "TORCHINDUCTOR_CACHE_DIR": compiled}
        return subprocess.run(command, env={**os.environ, **own}).returncode


def main() -> int:
    """Run every set, and return 1 if tests failed with one of them."""
    arguments = sys.argv[1:] or list(NUMBERS)
    if arguments == ["--short"]:
        arguments = list(SHORT)
    statuses = [run_held(name, arguments) for name in SETS]
    return int(any(status not in (0, _NONE_SELECTED) for status in statuses))


if __name__ == "__main__":
    sys.exit(main())
