"""Networks as graphs that run without ASDF: TorchScript, and ONNX for waveforms of any length.

Invariant: a graph's results are compared with the network's before the file is written. A graph
that was compared at one number of samples checks that it gets no other. An ONNX graph that differs
at one of several lengths is written for a single one instead, with the reason. It takes any number
of utterances.

Shapes: B utterances, T samples, E embedding values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.interface import audio_of, fixed_samples
from asdf.runs.files import atomic_write
from asdf.settings.sections import FRAME_SAMPLES

SAMPLES = 64600
"""Number of samples to which recordings are commonly cut or repeated: 4 s."""

TOLERANCE = 1e-4
"""Tolerance for values up to 1; it is proportional to larger values."""

TRACED = 2
"""Number of waveforms with which a graph is made."""

CHECKED = 3
"""Number of waveforms for the check; it differs, in case the first became a constant."""

INPUT = "waveforms"
OUTPUTS = ["embeddings", "logits"]
_OPSET = 17
# The common length, and odd ones: even and odd numbers of graph nodes.
_LENGTHS = (9001, 20011, SAMPLES, 70001)
# Number of samples with which a graph of any length is made.
_TRACED_LENGTH = 16000
# Severity of the runtime's log, which otherwise also writes what it raises.
_FATAL = 4

Forward = Callable[[Tensor], tuple[Tensor, Tensor]]


class GraphError(AsdfError):
    """A network cannot become a graph, or its graph gives other results."""


class _OneLength(nn.Module):
    """The traced network after a check of the waveforms' length."""

    def __init__(self, traced: torch.jit.ScriptModule, samples: int) -> None:
        super().__init__()
        self.traced = traced
        self.samples = samples

    def forward(self, waveforms: Tensor) -> tuple[Tensor, Tensor]:
        if waveforms.dim() != 2 or waveforms.size(1) != self.samples:
            raise ValueError(
                "waveforms must be (batch, samples) with the number of samples that the network "
                "was exported for"
            )
        embeddings, logits = self.traced(waveforms)
        return embeddings, logits


@contextmanager
def returning_a_pair(network: nn.Module) -> Iterator[None]:
    """Let `network` return a tuple, as tracers require, of embeddings and logits in the block."""
    # A wrapping module would not do: a tracer leaves out the hooks of inner modules.
    handle = network.register_forward_hook(lambda module, inputs, outputs: tuple(outputs))
    try:
        yield
    finally:
        handle.remove()


def samples_for(network: nn.Module, requested: int | None) -> int:
    """Return the length of a graph's waveforms: as requested, of the network, or the common one.

    Raises:
        UsageError: the network has a fixed input length, and another is requested.
    """
    only = fixed_samples(network)
    if only is not None and requested not in (None, only):
        raise UsageError(
            f"--samples {requested}: {type(network).__name__} takes {only} samples only."
        )
    return only or requested or SAMPLES


def write_torchscript(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as TorchScript; return the checks, in words.

    Raises:
        GraphError: the network cannot be traced, or its graph gives other results.
    """
    # Silence tracer warnings about constant shapes (intended: the length is fixed) and
    # TorchScript's deprecation.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.no_grad(), returning_a_pair(network):
                # `compare` checks more than check_trace, which traces a second time.
                traced = torch.jit.trace(network, noise(TRACED, samples), check_trace=False)
                # Scripted, because a tracer would turn the check of the length into a constant.
                graph = torch.jit.script(_OneLength(traced, samples))
        except Exception as error:  # of any kind, from a network that may be the user's
            raise export_error(network, "TorchScript", error) from error
        checked = compare(network, [(CHECKED, samples)], graph)
        with atomic_write(path, "wb") as file:
            torch.jit.save(graph, file)
    return f"{describe_input(network, samples)}\n{checked}"


def noise(batch: int, samples: int) -> Tensor:
    """Return noise at about the level of speech, (batch, samples); the same in each export."""
    generator = torch.Generator().manual_seed(batch)
    return 0.1 * torch.randn(batch, samples, generator=generator)


def compare(network: nn.Module, batches: Sequence[tuple[int, int]], graph: Forward) -> str:
    """Run the graph and the network; return the largest difference, in words.

    Args:
        batches: Numbers of waveforms and of samples of each batch.

    Raises:
        GraphError: the graph gives other results, or fails.
    """
    kind = type(network).__name__
    largest = 0.0
    for batch, samples in batches:
        waveforms_BT = noise(batch, samples)
        with torch.no_grad():
            expected = network(waveforms_BT)
            try:
                results = graph(waveforms_BT)
            except Exception as error:  # of any kind: the runtimes have their own
                raise GraphError(
                    f"the exported graph of {kind} fails for waveforms of {samples:,} samples; "
                    f"nothing was written. {_first_line(error)}"
                ) from error
        differences = []
        allowed = TOLERANCE
        for expected_BX, result_BX in zip(expected, results, strict=True):
            differences.append(float((expected_BX - result_BX).abs().max()))
            allowed = max(allowed, TOLERANCE * float(expected_BX.abs().max()))
        # Compare each one: NaN is neither the largest nor within the tolerance.
        if not all(difference <= allowed for difference in differences):
            raise GraphError(
                f"the exported graph of {kind} differs from the network for waveforms of "
                f"{samples:,} samples, by {max(differences):.2g}; nothing was written. Its forward "
                "may do what a graph cannot express, such as branch on values."
            )
        largest = max(largest, *differences)
    count = sum(batch for batch, _ in batches)
    *others, last = sorted({samples for _, samples in batches})
    shown = ", ".join(f"{samples:,}" for samples in others)
    of_lengths = f" of {shown} and {last:,} samples" if others else ""
    return (
        f"run on {count} waveforms{of_lengths}: differs from the network by {largest:.1e} at most"
    )


def describe_input(network: nn.Module, samples: int | None) -> str:
    """Return a graph's inputs and outputs, in words; None: waveforms of any length."""
    rate = f"{audio_of(network).sample_rate / 1000:g} kHz"
    lengths = "samples), of any length," if samples is None else f"{samples})"
    return (
        f"takes waveforms (batch, {lengths} at {rate}, gives embeddings and logits (spoof, bona "
        "fide)"
    )


def export_error(network: nn.Module, layout: str, error: Exception) -> GraphError:
    """Return the message of a failed export."""
    return GraphError(
        f"{type(network).__name__} cannot be exported as {layout}: {type(error).__name__}: "
        f"{_first_line(error)}"
    )


def _first_line(error: Exception) -> str:
    # torch's messages continue for pages about its internals.
    lines = (line.partition("[Caused by")[0].strip() for line in str(error).splitlines())
    return next((line for line in lines if line), "")


def write_onnx(network: nn.Module, path: Path, samples: int | None = None) -> str:
    """Write `network`, in eval mode, as ONNX; return the result and the checks, in words.

    Args:
        samples: Fixed length that it takes; None: any, or the common length where that fails.

    Raises:
        AsdfError: a package is missing, or the network is too large for a file.
        GraphError: it cannot be exported, or its graph gives other results.
    """
    only = samples_for(network, samples)
    content = b""
    if samples is not None:
        remark = ""
    elif find_spec("onnxruntime") is None:
        remark = "of one length: comparing others needs the package onnxruntime"
    else:
        # Most networks repeat the shortest ones.
        shortest = int(getattr(network, "shortest_input", FRAME_SAMPLES))
        batches = [(1, length) for length in (max(shortest // 3, 1), shortest, *_LENGTHS)]
        # One batch with another number of waveforms is sufficient.
        batches.append((CHECKED, _TRACED_LENGTH - 1))
        try:
            content = onnx_graph(network)
            lines = [describe_input(network, None), compare(network, batches, runner(content))]
        except GraphError as error:
            # A graph for any length may be wrong silently; one for a single length may be right.
            content, remark = b"", f"of one length: {error}"
    if not content:
        content = onnx_graph(network, only)
        # Only the check needs it; the file can be written without it.
        checked = "not run: the package onnxruntime is not installed"
        if find_spec("onnxruntime") is not None:
            checked = compare(network, [(CHECKED, only)], runner(content))
        lines = [describe_input(network, only), remark, checked]
    with atomic_write(path, "wb") as file:
        file.write(content)
    return "\n".join(line for line in lines if line)


def onnx_graph(network: nn.Module, samples: int | None = None) -> bytes:
    """Return `network`, in eval mode, as the content of an ONNX file, without comparing.

    The graph has the input `waveforms`, (batch, samples), and the outputs `embeddings` and
    `logits`.

    Args:
        samples: Fixed length of waveforms that it takes; None: any.

    Raises:
        AsdfError: the package onnx is missing, or the network is too large for a file.
        GraphError: the network cannot be exported.
    """
    if find_spec("onnx") is None:
        raise AsdfError(
            "exporting to ONNX needs the package onnx: pip install 'asdf-antispoofing[onnx]'"
        )
    axes = {name: {0: "batch"} for name in (INPUT, *OUTPUTS)}
    if samples is None:
        axes[INPUT][1] = "samples"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        try:
            with torch.no_grad(), returning_a_pair(network), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    network,
                    (noise(TRACED, samples or _TRACED_LENGTH),),
                    path,
                    input_names=[INPUT],
                    output_names=OUTPUTS,
                    dynamic_axes=axes,
                    opset_version=_OPSET,
                    # The newer exporter needs further packages, and fails on WavLM's relative
                    # positions.
                    dynamo=False,
                )
        except Exception as error:  # of any kind, from a network that may be the user's
            raise export_error(network, "ONNX", error) from error
        # The exporter writes the weights of a larger network to separate files.
        if len(list(Path(folder).iterdir())) > 1:
            raise AsdfError(
                f"{type(network).__name__} exceeds 2 GB, the limit of an ONNX file; nothing was "
                "written. Export it as torchscript."
            )
        return path.read_bytes()


def runner(content: bytes) -> Forward:
    """Return a function that runs an ONNX graph on waveforms (batch, samples).

    Raises:
        ImportError: onnxruntime is missing.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    # The runtime would take all cores, beyond what torch was limited to.
    options.intra_op_num_threads = torch.get_num_threads()
    # From memory, so that a graph that fails the check is never at its path.
    session: Any = onnxruntime.InferenceSession(content, options)

    def run(waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        embeddings, logits = session.run(OUTPUTS, {INPUT: waveforms_BT.numpy()})
        return torch.from_numpy(embeddings), torch.from_numpy(logits)

    return run
