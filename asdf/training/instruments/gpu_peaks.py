"""Peak throughput of GPUs, for the share of it that a step reaches (MFU).

Dense products (without sparsity) from NVIDIA's datasheets, TFLOP/s: bf16 and fp16 on tensor cores
with float32 sums, and float32 without tensor cores.
"""

from __future__ import annotations

import re

# Whole words of the driver's GPU name; the first match counts.
_PEAKS: tuple[tuple[tuple[str, ...], dict[str, float]], ...] = (
    (("GH200",), {"bf16": 989.4, "fp16": 989.4, "fp32": 66.9}),
    (("H200", "NVL"), {"bf16": 835.5, "fp16": 835.5, "fp32": 60.0}),
    (("H200",), {"bf16": 989.4, "fp16": 989.4, "fp32": 66.9}),
    (("H100", "PCIe"), {"bf16": 756.0, "fp16": 756.0, "fp32": 51.2}),
    (("H100", "NVL"), {"bf16": 835.5, "fp16": 835.5, "fp32": 60.0}),
    (("H100",), {"bf16": 989.4, "fp16": 989.4, "fp32": 66.9}),
    (("A100",), {"bf16": 312.0, "fp16": 312.0, "fp32": 19.5}),
    (("A40",), {"bf16": 149.7, "fp16": 149.7, "fp32": 37.4}),
    (("A30",), {"bf16": 165.0, "fp16": 165.0, "fp32": 10.3}),
    (("L40S",), {"bf16": 362.1, "fp16": 362.1, "fp32": 91.6}),
    (("L40",), {"bf16": 181.1, "fp16": 181.1, "fp32": 90.5}),
    (("L4",), {"bf16": 121.0, "fp16": 121.0, "fp32": 30.3}),
    (("V100",), {"fp16": 125.0, "fp32": 15.7}),
    (("T4",), {"fp16": 65.0, "fp32": 8.1}),
)


def peak_flops(gpu: str, precision: str) -> float | None:
    """Return the peak FLOP/s of a GPU; None if it is not in the table.

    Args:
        gpu: Name of the GPU, such as 'NVIDIA A100-SXM4-40GB'.
        precision: Precision: 'bf16', 'fp16' or 'fp32'.
    """
    words = set(re.split(r"[\s-]+", gpu))
    if "MIG" in words:
        return None  # a part of a GPU
    for name, peaks in _PEAKS:
        if set(name) <= words:
            return peaks[precision] * 1e12 if precision in peaks else None
    return None
