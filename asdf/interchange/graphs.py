"""Networks as graphs that run without ASDF: TorchScript and ONNX.

Invariant: a graph takes one number of samples, which it checks, and any number of utterances; its
results are compared with the network's before the file is written. A graph fixes what a network
decides from a recording's length, such as how many graph nodes it pools, so another length would
give other scores in silence.

Shapes: B utterances, T samples, E embedding values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.interface import fixed_samples
from asdf.runs.files import atomic_write

SAMPLES = 64600
"""What the field cuts or repeats recordings to: 4 s."""

TOLERANCE = 1e-4
"""By how much numbers up to 1 may differ; larger ones by as much more."""

_OPSET = 17
_INPUT = "waveforms"
_OUTPUTS = ["embeddings", "logits"]

Forward = Callable[[Tensor], tuple[Tensor, Tensor]]


class _OneLength(nn.Module):
    """The traced network after a check of the waveforms' length."""

    def __init__(self, traced: torch.jit.ScriptModule, samples: int) -> None:
        super().__init__()
        self.traced = traced
        self.samples = samples

    def forward(self, waveforms: Tensor) -> tuple[Tensor, Tensor]:
        if waveforms.dim() != 2 or waveforms.size(1) != self.samples:
            raise ValueError(
                "waveforms must be (batch, samples) with as many samples as the network was "
                "exported for"
            )
        embeddings, logits = self.traced(waveforms)
        return embeddings, logits


@contextmanager
def _returning_a_pair(network: nn.Module) -> Iterator[None]:
    """Let `network` return a tuple in the block, which tracers know: embeddings and logits."""
    # Not a module around it: a tracer leaves out the hooks of inner modules.
    handle = network.register_forward_hook(_as_pair)
    try:
        yield
    finally:
        handle.remove()


def _as_pair(network: nn.Module, inputs: Any, outputs: Any) -> tuple[Tensor, Tensor]:
    embeddings, logits = outputs
    return embeddings, logits


def samples_for(network: nn.Module, requested: int | None) -> int:
    """Return the length of a graph's waveforms: the requested one, the network's, or the field's.

    Raises:
        UsageError: the network takes one length, and another is requested.
    """
    only = fixed_samples(network)
    if only is not None and requested not in (None, only):
        raise UsageError(
            f"--samples {requested}: {type(network).__name__} takes {only} samples and no other "
            "length."
        )
    return only or requested or SAMPLES


def write_torchscript(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as TorchScript; return what was checked, in words.

    Raises:
        AsdfError: the network cannot be traced, or its graph gives other numbers.
    """
    # Silence tracer warnings about constant shapes (intended: the length is fixed) and
    # TorchScript's deprecation.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.no_grad(), _returning_a_pair(network):
                # `_compare` checks more than check_trace, which traces a second time.
                traced = torch.jit.trace(network, _noise(2, samples), check_trace=False)
                # Scripted: a tracer would turn the check of the length into a constant.
                graph = torch.jit.script(_OneLength(traced, samples))
        except Exception as error:  # of any kind, from a network that may be the user's
            raise _export_error(network, "TorchScript", error) from error
        checked = _compare(network, samples, graph)
        with atomic_write(path, "wb") as file:
            torch.jit.save(graph, file)
    return checked


def write_onnx(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as ONNX; return what was checked, in words.

    Raises:
        AsdfError: the package onnx is missing, the network cannot be exported, or its graph gives
            other numbers.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise AsdfError(
            "exporting to ONNX needs the package onnx: pip install 'asdf-antispoofing[onnx]'"
        ) from error
    content = _export_onnx(network, samples)
    checked = _check_onnx(network, samples, content)
    with atomic_write(path, "wb") as file:
        file.write(content)
    return checked


def _export_onnx(network: nn.Module, samples: int) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        try:
            with torch.no_grad(), _returning_a_pair(network), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    network,
                    (_noise(2, samples),),
                    path,
                    input_names=[_INPUT],
                    output_names=_OUTPUTS,
                    dynamic_axes={name: {0: "batch"} for name in (_INPUT, *_OUTPUTS)},
                    opset_version=_OPSET,
                    # The newer exporter needs further packages, and stops at WavLM's relative
                    # positions.
                    dynamo=False,
                )
        except Exception as error:  # of any kind, from a network that may be the user's
            raise _export_error(network, "ONNX", error) from error
        # The exporter writes the weights of a larger network to files of their own.
        if len(list(Path(folder).iterdir())) > 1:
            raise AsdfError(
                f"{type(network).__name__} is larger than 2 GB, the most that an ONNX file holds; "
                "nothing was written. Export it as torchscript."
            )
        return path.read_bytes()


def _check_onnx(network: nn.Module, samples: int, content: bytes) -> str:
    try:
        import onnxruntime
    except ImportError:
        # The check alone needs it, and the file can be written without one.
        return "not run: the package onnxruntime is not installed"
    # From memory: what does not pass is never at its path.
    session: Any = onnxruntime.InferenceSession(content)

    def run(waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        embeddings, logits = session.run(None, {_INPUT: waveforms_BT.numpy()})
        return torch.from_numpy(embeddings), torch.from_numpy(logits)

    return _compare(network, samples, run)


def _noise(batch: int, samples: int) -> Tensor:
    """Return noise at about the level of speech, (batch, samples); the same in each export."""
    generator = torch.Generator().manual_seed(batch)
    return 0.1 * torch.randn(batch, samples, generator=generator)


def _compare(network: nn.Module, samples: int, graph: Forward) -> str:
    """Run the graph on another batch than it was traced with; return the difference, in words."""
    # Another number of utterances shows whether the tracer took that number for a constant.
    waveforms_BT = _noise(3, samples)
    with torch.no_grad():
        expected = network(waveforms_BT)
        results = graph(waveforms_BT)
    differences = []
    allowed = TOLERANCE
    for expected_BX, result_BX in zip(expected, results, strict=True):
        differences.append(float((expected_BX - result_BX).abs().max()))
        allowed = max(allowed, TOLERANCE * float(expected_BX.abs().max()))
    largest = max(differences)
    # Each of them: NaN is neither the largest nor within the limit.
    if not all(difference <= allowed for difference in differences):
        raise AsdfError(
            f"the exported graph of {type(network).__name__} gives other numbers than the network, "
            f"by {largest:.2g}; nothing was written. Its forward may do what a graph cannot "
            "follow, such as branch on values."
        )
    return (
        f"run on {len(waveforms_BT)} waveforms: differs from the network by {largest:.1e} at most"
    )


def _export_error(network: nn.Module, layout: str, error: Exception) -> AsdfError:
    # torch's messages go on for pages about its internals.
    reason = next((line for line in str(error).splitlines() if line.strip()), "")
    return AsdfError(
        f"{type(network).__name__} cannot be exported as {layout}: {type(error).__name__}: "
        f"{reason.strip()}"
    )
