"""Training with a compiled network (`computing.compile`).

Invariant: only what training calls is compiled. The network itself stays as it is: the names in its
state dict do not change, and scoring computes it exactly as without compiling. Clips and whole
minibatches have one shape, so there is one graph; torch compiles it again when the front end starts
to learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.attached import completed
from asdf.settings.sections import Sections

_EXPLAINS = "Explanation: "
_NEEDS = (
    "Compiling needs a C++ compiler (g++), on GPUs Triton as well, and a network that "
    "torch.compile supports."
)
_UNSUPPORTED = "The network's code has something that torch.compile does not support."


class Compiled(nn.Module):
    """A network whose forward in training is compiled; it shares the network's modules and
    parameters.

    Args:
        batch: the rows of a whole minibatch. The short ones at the end of an epoch are not worth a
            compilation of their own: they are computed without.
    """

    def __init__(self, network: nn.Module, batch: int) -> None:
        super().__init__()
        self.network = network
        self.batch = batch
        # The method, not the module: a compiled module would be a second owner of every parameter.
        self._forward = torch.compile(network.forward, dynamic=False)

    def forward(self, waveforms_BT: Tensor) -> Any:
        """Return the network's embeddings and logits, or `Outputs`."""
        if len(waveforms_BT) != self.batch:
            return self.network(waveforms_BT)
        return completed(self.network, self._forward(waveforms_BT))


def check_compilable(settings: Sections) -> None:
    """Refuse what would be compiled again in every step.

    Raises:
        UsageError: encoder layers are dropped at random, so the graph is another one in each step.
    """
    if settings.computing.compile and settings.front_end.layer_drop:
        raise UsageError(
            "computing.compile = True needs a fixed graph and cannot be combined with "
            f"front_end.layer_drop = {settings.front_end.layer_drop}. Set one of them to False and "
            "0."
        )


@contextmanager
def compile_errors_as_usage_errors(compiles: bool) -> Iterator[None]:
    """Raise one message for the compiler's own failures, most of which are a missing C++ compiler
    or Triton.

    Raises:
        UsageError: the network cannot be compiled here.
    """
    if not compiles:
        yield
        return
    from torch._dynamo.exc import TorchDynamoException

    try:
        yield
    except TorchDynamoException as error:
        cause = getattr(error, "inner_exception", error)
        advice = _UNSUPPORTED if cause is error else _NEEDS
        raise UsageError(
            f"the network could not be compiled: {_describe_cause(cause)}. {advice} "
            "Set computing.compile = False to train without."
        ) from error


def _describe_cause(cause: BaseException) -> str:
    """Put torch's report on one line: its first line, its explanations, the line of the network."""
    text, _, code = str(cause).partition("from user code:")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    parts = lines[:1]
    if not parts:
        parts.append(type(cause).__name__)
    for line in lines:
        if line.startswith(_EXPLAINS):
            parts.append(line.removeprefix(_EXPLAINS))
    locations = [line.strip() for line in code.splitlines() if line.strip().startswith("File ")]
    # The outermost call comes first.
    parts.extend(locations[-1:])
    return ": ".join(part.rstrip(".") for part in parts)
