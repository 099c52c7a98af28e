"""Networks as graphs that run without ASDF: TorchScript and ONNX.

Invariant: a graph takes one number of samples, which it checks, and any number of utterances; what it gives is held
against the network's own numbers before the file is there. A graph keeps what a network decides from a recording's
length, such as how many graph nodes it pools, so another length would give other scores without a word.

Shapes: B utterances, T samples, E embedding values.
"""

from __future__ import annotations

import warnings
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
_NAMES: dict[str, Any] = {"input_names": ["waveforms"], "output_names": ["embeddings", "logits"]}


class _OneLength(nn.Module):
    """The traced network behind a check of the waveforms' length."""

    def __init__(self, traced: torch.jit.ScriptModule, samples: int) -> None:
        super().__init__()
        self.traced = traced
        self.samples = samples

    def forward(self, waveforms: Tensor) -> tuple[Tensor, Tensor]:
        if waveforms.dim() != 2 or waveforms.size(1) != self.samples:
            raise ValueError(
                "waveforms must be (batch, samples) with as many samples as the network was exported for"
            )
        embeddings, logits = self.traced(waveforms)
        return embeddings, logits


def samples_for(network: nn.Module, asked: int | None) -> int:
    """The length of a graph's waveforms: what is asked for, the one that the network takes, or the field's.

    Raises:
        UsageError: the network takes one length, and another is asked for.
    """
    only = fixed_samples(network)
    if only is not None and asked not in (None, only):
        raise UsageError(
            f"--samples {asked}: {type(network).__name__} takes {only} samples and no other length."
        )
    return only or asked or SAMPLES


def write_torchscript(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as TorchScript; what was checked, in words.

    Raises:
        AsdfError: the network cannot be traced, or its graph gives other numbers.
    """
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # On shapes that a graph keeps, which the length stands for, and on TorchScript's age.
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(network, _waveforms(2, samples), check_trace=False)
            graph = torch.jit.script(_OneLength(traced, samples))
    except Exception as error:  # of any kind, from a network that may be the user's own
        raise _impossible(network, "TorchScript", error) from error
    difference = _difference(network, samples, graph)
    with atomic_write(path, "wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(graph, file)
    return difference


def write_onnx(network: nn.Module, path: Path, samples: int) -> str:
    """Write `network`, in eval mode, as ONNX; what was checked, in words.

    Raises:
        AsdfError: the package onnx is missing, the network cannot be exported, or its graph gives other numbers.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise AsdfError(
            "exporting to ONNX needs the package onnx: pip install 'asdf-antispoofing[onnx]'"
        ) from error
    # torch's newer exporter needs further packages, and stops at WavLM's relative positions.
    options: dict[str, Any] = {
        "dynamo": False,
        "opset_version": _OPSET,
        "dynamic_axes": {name: {0: "batch"} for names in _NAMES.values() for name in names},
    }
    with TemporaryDirectory() as folder:
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    network,
                    (_waveforms(2, samples),),
                    Path(folder) / "net.onnx",
                    **_NAMES,
                    **options,
                )
        except Exception as error:
            raise _impossible(network, "ONNX", error) from error
        if len(list(Path(folder).iterdir())) > 1:
            raise AsdfError(
                f"{type(network).__name__} is larger than 2 GB, the most that an ONNX file holds; nothing was written. "
                "Export it as torchscript."
            )
        made = (Path(folder) / "net.onnx").read_bytes()
    try:
        import onnxruntime
    except ImportError:
        checked = "not run: the package onnxruntime is not installed"
    else:
        session = onnxruntime.InferenceSession(made)

        def run(waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
            embeddings, logits = session.run(None, {"waveforms": waveforms_BT.numpy()})
            return torch.from_numpy(embeddings), torch.from_numpy(logits)

        checked = _difference(network, samples, run)
    with atomic_write(path, "wb") as file:
        file.write(made)
    return checked


def _waveforms(batch: int, samples: int) -> Tensor:
    """Noise at about the level of speech; the same in each export."""
    return 0.1 * torch.randn(batch, samples, generator=torch.Generator().manual_seed(batch))


def _difference(network: nn.Module, samples: int, graph: Any) -> str:
    """Run the graph on another batch than it was traced with."""
    waveforms_BT = _waveforms(3, samples)
    with torch.no_grad():
        expected, got = network(waveforms_BT), graph(waveforms_BT)
    largest = max(float((a - b).abs().max()) for a, b in zip(expected, got, strict=True))
    allowed = TOLERANCE * max(1.0, *(float(values_BX.abs().max()) for values_BX in expected))
    if not largest <= allowed:
        raise AsdfError(
            f"the exported graph of {type(network).__name__} gives other numbers than the network, by {largest:.2g}; "
            "nothing was written. Its forward may do what a graph cannot follow, such as branch on values."
        )
    return (
        f"run on {len(waveforms_BT)} waveforms: differs from the network by {largest:.1e} at most"
    )


def _impossible(network: nn.Module, layout: str, error: Exception) -> AsdfError:
    reason = next((line for line in str(error).splitlines() if line.strip()), "")
    return AsdfError(
        f"{type(network).__name__} cannot be exported as {layout}: {type(error).__name__}: {reason.strip()}"
    )
