"""Networks that score on a CPU with weights that are laid out for it.

Invariant: the numbers are those of the network up to the rounding of float32, and a row of a batch
does not depend on the other rows. The network itself is not changed, unless it is handed over.

Why: torch multiplies matrices with MKL, which is slow on the processors of AMD, and lets oneDNN lay
out a convolution's weights and results anew in each call. oneDNN multiplies faster on the
processors of AMD and of Intel when it gets the weights as it wants them. An AASIST spends a third
of its time in SELU, for which torch has a slow exponential function.
"""

from __future__ import annotations

from asdf.packed.network import PackedNetwork
from asdf.packed.packed_weights import (
    NO_BFLOAT16,
    computes_bfloat16,
    is_available,
    multiplies_bfloat16,
)

__all__ = [
    "NO_BFLOAT16",
    "PackedNetwork",
    "computes_bfloat16",
    "is_available",
    "multiplies_bfloat16",
]
