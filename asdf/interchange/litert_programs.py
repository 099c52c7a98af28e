"""Networks as LiteRT programs (.tflite), for phones and other small machines.

Invariant: before a program is written, LiteRT's own interpreter has executed it, and its results
were compared with the network's. It takes one recording of one length.

Shapes: T samples, E embedding values.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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
from asdf.interchange.onnx_graphs import INPUT, OUTPUTS

_PACKAGES = ("litert_torch", "ai_edge_litert")
_STDERR = 2


class _Named(nn.Module):
    """A network with named outputs, like those of its ONNX graph."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, waveforms: Tensor) -> dict[str, Tensor]:
        return dict(zip(OUTPUTS, self.network(waveforms), strict=True))


def write_litert(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as a LiteRT program; return the checks, in words.

    Args:
        samples: Length of the waveforms, (1, samples), that it takes.

    Raises:
        AsdfError: a package is missing.
        GraphError: the network cannot be exported, or its program gives other results.
    """
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise AsdfError(
                f"exporting to LiteRT needs the package {package.replace('_', '-')}: "
                "pip install 'asdf-antispoofing[litert]'"
            )
    content = _convert(network, samples)
    return write_program(path, content, network, samples, _runner(content))


def _convert(network: nn.Module, samples: int) -> bytes:
    with _quietly():
        import litert_torch

        litert_torch.config.show_progress = False
        try:
            with torch.no_grad():
                inputs = {INPUT: noise(1, samples)}
                program = litert_torch.convert(_Named(network).eval(), sample_kwargs=inputs)
                content: bytes = program.model_content()
        except Exception as error:  # of any kind, from a network that may be the user's
            raise export_error(network, "a LiteRT program", error) from error
    return content


def _runner(content: bytes) -> Forward:
    from ai_edge_litert.interpreter import Interpreter

    with _quietly():
        run_program = Interpreter(model_content=content).get_signature_runner()

    def run(waveforms_1T: Tensor) -> tuple[Tensor, Tensor]:
        with _quietly():
            outputs = run_program(**{INPUT: waveforms_1T.numpy()})
        embeddings_1E, logits_12 = (torch.from_numpy(outputs[name]) for name in OUTPUTS)
        return embeddings_1E, logits_12

    return run


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress what the converter's libraries write to standard error, below Python's streams."""
    # What Python has buffered still belongs to the real stream.
    sys.stderr.flush()
    saved = os.dup(_STDERR)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, _STDERR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(saved, _STDERR)
        os.close(saved)
        os.close(null)
