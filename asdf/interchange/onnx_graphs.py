"""Networks as ONNX graphs, for waveforms of any length if that gives the network's results.

Invariant: a graph is compared with the network before it is written, at several lengths if it takes
any. A graph that differs or fails at one of them is written for a single length instead, with the
reason; so is a graph that cannot be compared.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.interchange.exported_graphs import (
    CHECKED,
    SAMPLES,
    TRACED,
    Forward,
    GraphError,
    compare,
    describe_input,
    export_error,
    noise,
    returning_a_pair,
    samples_for,
)
from asdf.runs.files import atomic_write
from asdf.settings.sections import FRAME_SAMPLES

INPUT = "waveforms"
OUTPUTS = ["embeddings", "logits"]
_OPSET = 17
# The common length, and odd ones: even and odd numbers of graph nodes.
_LENGTHS = (9001, 20011, SAMPLES, 70001)
# Number of samples with which a graph of any length is made.
_TRACED_LENGTH = 16000
# Severity of the runtime's log, which otherwise also writes what it raises.
_FATAL = 4


def write_onnx(network: nn.Module, path: Path, samples: int | None = None) -> str:
    """Write `network`, in eval mode, as ONNX; return the result and the checks, in words.

    Args:
        samples: Fixed length that it takes; None: any, or the common length where that fails.

    Raises:
        AsdfError: a package is missing, or the network is too large for a file.
        GraphError: it cannot be exported, or its graph gives other results.
    """
    content, words = _make_compared(network, samples)
    with atomic_write(path, "wb") as file:
        file.write(content)
    return words


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


def _make_compared(network: nn.Module, samples: int | None) -> tuple[bytes, str]:
    """Return a graph that was compared, of any length or else of one, and the checks in words."""
    only = samples_for(network, samples)
    if samples is not None:
        return _compare_one_length(network, only, "")
    if find_spec("onnxruntime") is None:
        remark = "of one length: comparing others needs the package onnxruntime"
        return _compare_one_length(network, only, remark)
    try:
        content = onnx_graph(network)
        # Most networks repeat the shortest ones.
        shortest = int(getattr(network, "shortest_input", FRAME_SAMPLES))
        lengths = (max(shortest // 3, 1), shortest, *_LENGTHS)
        batches = [(1, length) for length in lengths]
        # One batch with another number of waveforms is sufficient.
        batches.append((CHECKED, _TRACED_LENGTH - 1))
        checked = compare(network, batches, runner(content))
    except GraphError as error:
        # A graph for any length may be wrong silently; one for a single length may be right.
        return _compare_one_length(network, only, f"of one length: {error}")
    return content, f"{describe_input(network, None)}\n{checked}"


def _compare_one_length(network: nn.Module, samples: int, remark: str) -> tuple[bytes, str]:
    content = onnx_graph(network, samples)
    # Only the check needs it; the file can be written without it.
    checked = "not run: the package onnxruntime is not installed"
    if find_spec("onnxruntime") is not None:
        checked = compare(network, [(CHECKED, samples)], runner(content))
    lines = [describe_input(network, samples), remark, checked]
    return content, "\n".join(line for line in lines if line)
