"""Training with a compiled network (`computing.compile`).

Invariant: only the calls in training are compiled. The network itself is unchanged: the names in
its state dict stay, and scoring computes exactly as without compiling. Clips and whole minibatches
have one shape, so there is one graph, which torch compiles again when the front end starts to be
trained. With 'layers', the graph is of one encoder layer and shared by all: compiling takes seconds
rather than minutes, and the other parts are not compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torchaudio.models.wav2vec2.components import Transformer

from asdf.errors import UsageError
from asdf.networks.attached import completed
from asdf.networks.front_ends.encoder_layers import layers_compiled
from asdf.settings.sections import Computing, FrontEnd

_EXPLAINS = "Explanation: "
_NEEDS = (
    "Compiling needs a C++ compiler (g++), on GPUs Triton as well, and a network that "
    "torch.compile supports."
)
_UNSUPPORTED = "The network's code has something that torch.compile does not support."


class Compiled(nn.Module):
    """A network with a compiled forward in training, which shares modules and parameters.

    Args:
        batch: Number of rows of a whole minibatch. Shorter ones at the end of an epoch are computed
            without compiling, since they are not worth a second graph.
    """

    def __init__(self, network: nn.Module, batch: int) -> None:
        super().__init__()
        self.network = network
        self.batch = batch
        # The method, not the module, since a compiled module would own every parameter a second
        # time.
        self._forward = torch.compile(network.forward, dynamic=False)

    def forward(self, waveforms_BT: Tensor, **inputs: Any) -> Any:
        """Return the network's embeddings and logits, or `Outputs`."""
        if len(waveforms_BT) != self.batch or inputs:
            return self.network(waveforms_BT, **inputs)
        return completed(self.network, self._forward(waveforms_BT))


class CompiledLayers(nn.Module):
    """A network with compiled encoder layers in training, one graph for all equal layers.

    Args: as in `Compiled`.
    """

    def __init__(self, network: nn.Module, batch: int) -> None:
        super().__init__()
        self.network = network
        self.batch = batch

    def forward(self, waveforms_BT: Tensor, **inputs: Any) -> Any:
        """Return the network's embeddings and logits, or `Outputs`."""
        with layers_compiled(len(waveforms_BT) == self.batch):
            return self.network(waveforms_BT, **inputs)


def compile_network(network: nn.Module, how: bool | str, batch: int) -> nn.Module:
    """Return the module that training calls for `network`, compiled according to `how`.

    Raises:
        UsageError: it has no layers that could be compiled separately.
    """
    if how != "layers":
        return Compiled(network, batch)
    if any(isinstance(module, Transformer) for module in network.modules()):
        return CompiledLayers(network, batch)
    raise UsageError(
        "computing.compile = 'layers' compiles the encoder's layers of wav2vec 2.0, HuBERT and "
        f"WavLM, and {type(network).__name__} has none. Set computing.compile = True to compile "
        "all of it, or False."
    )


def check_compilable(computing: Computing, front_end: FrontEnd) -> None:
    """Refuse settings that would require compiling again in every step.

    Raises:
        UsageError: encoder layers are dropped at random, so the graph differs in each step.
    """
    if computing.compile is True and front_end.layer_drop:
        raise UsageError(
            "computing.compile = True needs a fixed graph and cannot be combined with "
            f"front_end.layer_drop = {front_end.layer_drop}. Set one of them to False and "
            "0, or computing.compile to 'layers'."
        )


@contextmanager
def compile_errors_as_usage_errors(compiles: bool | str) -> Iterator[None]:
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
    """Condense torch's report to one line: first line, explanations, line of the network."""
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
