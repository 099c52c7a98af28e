"""Networks as ExecuTorch programs, for phones and other small machines.

Invariant: before a program is written, ExecuTorch's own runtime has executed it, and its results
were compared with the network's. It takes one recording of one length. XNNPACK's kernels compute
what they support, the portable kernels the rest.
"""

from __future__ import annotations

import copy
import logging
import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.interchange.exported_graphs import (
    Forward,
    export_error,
    noise,
    write_program,
)


class _Pair(nn.Module):
    """A network that returns a tuple, as programs do."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        embeddings_BE, logits_B2 = self.network(waveforms_BT)
        return embeddings_BE, logits_B2


def write_executorch(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as an ExecuTorch program; return the checks, in words.

    Args:
        samples: Length of the waveforms, (1, samples), that it takes.

    Raises:
        AsdfError: the package executorch is missing.
        GraphError: the network cannot be exported, or its program gives other results.
    """
    if find_spec("executorch") is None:
        raise AsdfError(
            "exporting to ExecuTorch needs the package executorch: "
            "pip install 'asdf-antispoofing[executorch]'"
        )
    content = _lower(network, samples)
    return write_program(path, content, network, samples, _runner(content))


def _lower(network: nn.Module, samples: int) -> bytes:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    # A copy, since its buffers are marked below.
    plain = copy.deepcopy(network)
    for module in plain.modules():
        # ExecuTorch refuses buffers that are not in the state dict, such as fixed filters.
        module._non_persistent_buffers_set = set()
    logging.getLogger("executorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.no_grad():
                waveform_1T = noise(1, samples)
                exported = torch.export.export(_Pair(plain).eval(), (waveform_1T,))
                lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
                content: bytes = lowered.to_executorch().buffer
        except Exception as error:  # of any kind, from a network that may be the user's
            raise export_error(network, "an ExecuTorch program", error) from error
    return content


def _runner(content: bytes) -> Forward:
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(content).load_method("forward")

    def run(waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        embeddings, logits = method.execute([waveforms_BT])
        return embeddings, logits

    return run
