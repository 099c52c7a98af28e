"""Whether a processor computes in bfloat16, by trying it: torch's flags do not show all limits."""

from __future__ import annotations

from functools import cache

import torch

NO_BFLOAT16 = (
    "bf16 not used: torch has no bf16 for all operations on this CPU, it needs AVX-512 or "
    "AVX-NE-CONVERT; fp32 is faster and finer here"
)


@cache
def computes_bfloat16() -> bool:
    """Return whether all operations of the networks have kernels for bfloat16 on this processor.

    Linear maps and convolutions are emulated everywhere; oneDNN's recurrent layers need AVX-512 or
    AVX-NE-CONVERT. They are tried, since oneDNN may be limited to fewer instructions than the
    processor has (ONEDNN_MAX_CPU_ISA), which torch's flags do not show.
    """
    x_TBI = torch.zeros(2, 1, 16)
    state = (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16))
    # Zero weights, since creating an nn.LSTM would draw random numbers and change later draws.
    weights = [torch.zeros(64, 16), torch.zeros(64, 16)]
    try:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            torch.lstm(x_TBI, state, weights, False, 1, 0.0, False, False, False)
    except RuntimeError:
        return False
    return True


def multiplies_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 natively rather than by emulation."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    # Private functions of torch, which an earlier version may lack.
    has_instructions = any(getattr(torch.cpu, name, bool)() for name in names)
    return has_instructions and computes_bfloat16()
