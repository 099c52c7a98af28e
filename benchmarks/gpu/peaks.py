"""Multiply-adds of training steps of XLS-R 300M + AASIST, for the model FLOPs utilisation (MFU)."""

from __future__ import annotations

from asdf.training.profile import peak_flops

__all__ = ["mfu", "peak_flops"]

# Multiply-adds of the forward pass for a clip of 64,600 samples, and of all passes of a step.
CLIP_OF_XLSR_AASIST = 75.1e9
STEP_OF_XLSR_AASIST = 3 * CLIP_OF_XLSR_AASIST


def mfu(utterances_per_s: float, peak: float) -> float:
    """Return the fraction of the peak that training steps of XLS-R 300M + AASIST use."""
    return 2 * STEP_OF_XLSR_AASIST * utterances_per_s / peak
