"""The share of the GPUs' peak throughput that training uses (MFU), if the peak is known.

It includes matrix products and convolutions of the network's forward and backward pass, once per
clip; recomputed layers and padding of batches are not counted. Operations are counted on torch's
meta device, without computing any number.

Source: Chowdhery et al., "PaLM", JMLR 2023, appendix B, for the measure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from asdf.networks.interface import as_outputs, waveform_shape
from asdf.runs.log import LOG
from asdf.training.instruments.gpu_peaks import peak_flops
from asdf.training.training_precision import Precision
from asdf.training.training_sections import TrainingSections

_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", None: "fp32"}


def known_peak(precision: Precision, tf32: bool) -> float | None:
    """Return the peak FLOP/s of this process's GPU in training; None if it is unknown."""
    # Products in TF32 have another peak, which the table lacks.
    if precision.device.type != "cuda" or (tf32 and precision.dtype is None):
        return None
    return peak_flops(torch.cuda.get_device_name(precision.device), _NAMES[precision.dtype])


def find_cost(
    network: nn.Module, settings: TrainingSections, precision: Precision
) -> ClipCost | None:
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
        with self._unknown_after_errors():
            self._outline = _outline_of(network)
            self.flops = _count(self._outline, samples)

    def learn_as(self, network: nn.Module) -> None:
        """Count again after the trained parameters of `network` have changed."""
        if self.flops is None or self._outline is None:
            return
        with self._unknown_after_errors():
            pairs = zip(self._outline.parameters(), network.parameters(), strict=True)
            for outlined, parameter in pairs:
                outlined.requires_grad_(parameter.requires_grad)
            self.flops = _count(self._outline, self._samples)

    @contextmanager
    def _unknown_after_errors(self) -> Iterator[None]:
        try:
            yield
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
