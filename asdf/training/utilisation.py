"""The share of the GPUs' peak throughput that training uses (MFU), if the peak is known.

It includes matrix products and convolutions of the network's forward and backward pass, once per
clip; recomputed layers and padding of batches are not counted. Operations are counted on torch's
meta device, without computing any number. Peaks are dense products (without sparsity) from NVIDIA's
datasheets, in TFLOP/s: bf16 and fp16 on tensor cores with float32 sums, float32 without them.

Source: Chowdhery et al., "PaLM", JMLR 2023, appendix B, for the measure.
"""

from __future__ import annotations

import copy
import re

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from asdf.networks.interface import as_outputs, waveform_shape
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.gradients import Precision

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

_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", None: "fp32"}


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


def known_peak(precision: Precision, tf32: bool) -> float | None:
    """Return the peak FLOP/s of this process's GPU in training; None if it is unknown."""
    # Products in TF32 have another peak, which the table lacks.
    if precision.device.type != "cuda" or (tf32 and precision.dtype is None):
        return None
    return peak_flops(torch.cuda.get_device_name(precision.device), _NAMES[precision.dtype])


def find_cost(network: nn.Module, settings: Sections, precision: Precision) -> ClipCost | None:
    """Return the cost of the passes over a clip; None if clips differ, or no peak is known.

    Args:
        network: Network before it is compiled.
    """
    peak = known_peak(precision, settings.computing.tf32)
    front_end = settings.front_end
    differ = settings.lengths.minibatch_s is not None or front_end.layer_drop
    if peak is None or differ or front_end.cache_features:
        return None
    return ClipCost(network, settings.network.train_clip_size, peak)


class ClipCost:
    """The cost of the passes over a clip.

    Attributes:
        flops: Number of floating-point operations of both passes with the current trained
            parameters; a multiplication and an addition are two. None if the network's computation
            depends on values, which an outline lacks.

    Args:
        network: Network that is not compiled; it is not changed.
        samples: Number of samples of a clip.
        peak: Peak FLOP/s of a process's GPU.
    """

    def __init__(self, network: nn.Module, samples: int, peak: float) -> None:
        self.peak = peak
        self.flops: float | None = None
        self._samples = samples
        self._outline: nn.Module | None = None
        self.learn_as(network)

    def learn_as(self, network: nn.Module) -> None:
        """Count with the trained parameters of `network`, at first and after they have changed."""
        try:
            if self._outline is None:
                self._outline = _outline_of(network)
            pairs = zip(self._outline.parameters(), network.parameters(), strict=True)
            for outlined, parameter in pairs:
                outlined.requires_grad_(parameter.requires_grad)
            self.flops = _count(self._outline, self._samples)
        except Exception as error:
            # A user's network may raise anything, and training does not need this number.
            self.flops = None
            LOG.info("MFU not known: the network cannot be outlined (%s)", type(error).__name__)


def _outline_of(network: nn.Module) -> nn.Module:
    """Return a copy with shapes but without values."""
    tensors: dict[int, Tensor] = {}
    # deepcopy treats the entries of this table as copies already made.
    for parameter in network.parameters():
        shape = torch.empty_like(parameter, device="meta")
        tensors[id(parameter)] = nn.Parameter(shape, requires_grad=parameter.requires_grad)
    for buffer in network.buffers():
        tensors[id(buffer)] = torch.empty_like(buffer, device="meta")
    outline: nn.Module = copy.deepcopy(network, tensors)
    for module in outline.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.gradient_checkpointing = False  # type: ignore[assignment]
    # Nothing is drawn at random, and norms work with a single utterance.
    return outline.eval()


def _count(outline: nn.Module, samples: int) -> float:
    waveforms = torch.empty(waveform_shape(outline, 1, samples), device="meta")
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        as_outputs(outline(waveforms)).logits_B2.sum().backward()
    for parameter in outline.parameters():
        parameter.grad = None
    return float(counter.get_total_flops())
