"""Training with a compiled network (`computing.compile`).

Invariant: only what training calls is compiled. The network itself stays as it is: its state dict keeps its names,
and scoring computes it exactly as ever. Clips and whole minibatches have one shape each, so there is one graph; it is
compiled anew by itself when the front end starts to learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.settings.sections import Sections

_EXPLAINS = "Explanation: "
_NEEDS = "Compiling needs a C++ compiler (g++), on GPUs Triton as well, and a network that torch.compile takes."
_UNSUPPORTED = "There is something in the network's code that torch.compile does not take."


class Compiled(nn.Module):
    """A network whose forward in training is compiled; it shares the network's modules and parameters.

    Args:
        batch: the rows of a whole minibatch. The short ones at the end of an epoch are not worth a compilation of
            their own: they are computed as without.
    """

    def __init__(self, network: nn.Module, batch: int) -> None:
        super().__init__()
        self.network, self.batch = network, batch
        # The method, not the module: a compiled module would be a second owner of every parameter.
        self._forward = torch.compile(network.forward, dynamic=False)

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """What the network gives."""
        if len(waveforms_BT) != self.batch:
            outputs: tuple[Tensor, Tensor] = self.network(waveforms_BT)
            return outputs
        compiled: tuple[Tensor, Tensor] = self._forward(waveforms_BT)
        return compiled


def check_compilable(settings: Sections) -> None:
    """Refuse what would be compiled anew in every step.

    Raises:
        UsageError: encoder layers are dropped at random, so that there is no one graph.
    """
    if settings.computing.compile and settings.front_end.layer_drop:
        raise UsageError(
            f"computing.compile = True and front_end.layer_drop = {settings.front_end.layer_drop} do not go together: "
            "with other layers in each step there is no one graph to compile. Set one of them to False and 0."
        )


@contextmanager
def compile_errors_as_usage_errors(compiles: bool) -> Iterator[None]:
    """Raise one message for the compiler's own failures, most of which are a missing C++ compiler or Triton.

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
            f"the network could not be compiled: {_reason(cause)}. {advice} Set computing.compile = False to train "
            "without."
        ) from error


def _reason(cause: BaseException) -> str:
    """Put what torch reports of a failure on one line: its first line, its explanations, its place in the network."""
    text, _, code = str(cause).partition("from user code:")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    explained = [line.removeprefix(_EXPLAINS) for line in lines if line.startswith(_EXPLAINS)]
    places = [line.strip() for line in code.splitlines() if line.strip().startswith("File ")]
    parts = [*(lines[:1] or [type(cause).__name__]), *explained, *places[-1:]]
    return ": ".join(part.rstrip(".") for part in parts)
