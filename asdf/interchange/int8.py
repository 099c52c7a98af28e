"""ONNX graphs with 8-bit weights: quantisation, and its effect on size and scores.

Invariant: only large matrices are quantised; the operations between them, convolutions and the
output layer stay in float32. Inputs of the matrices are quantised dynamically, over a whole batch:
the scores of an int8 graph depend on the batch, so it is for one recording at a time.

Shapes: B utterances, T samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.interchange.exported_graphs import Forward, noise

# Smaller matrices take no time, and include that of the logits.
_MIN_VALUES = 2**12
_QUANTIZED = ["MatMul", "Gemm"]
# Levels of the noise at each length, from quiet to loud.
_GAINS = (0.1, 1.0, 5.0)


def quantize(content: bytes) -> bytes:
    """Return an ONNX graph whose large matrices are int8, one scale per output value.

    Raises:
        AsdfError: onnxruntime is missing, or the graph has no such matrix.
    """
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise AsdfError(
            "--int8 needs the packages onnx and onnxruntime: pip install 'asdf-antispoofing[onnx]'"
        ) from error
    graph = onnx.load_from_string(content)
    large = _name_large_products(graph)
    if not large:
        raise AsdfError(
            "--int8: the network has no linear layer large enough to quantise; nothing was "
            "written. Export it without --int8."
        )
    # Suppresses onnxruntime's advice to infer shapes first, which is done below.
    onnx.helper.set_model_props(graph, {"onnx.quant.pre_process": "onnxruntime.quant"})
    # The quantiser writes its result to a file only.
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        quantize_dynamic(
            graph,
            path,
            op_types_to_quantize=_QUANTIZED,
            nodes_to_quantize=large,
            per_channel=True,
            # 7 bits: processors without VNNI add pairs of products in 16 bits, which would
            # overflow.
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        return path.read_bytes()


def _name_large_products(graph: Any) -> list[str]:
    """Return the names of the products with a large weight matrix."""
    sizes = {}
    for weights in graph.graph.initializer:
        values = 1
        for size in weights.dims:
            values *= size
        sizes[weights.name] = values
    names = []
    for node in graph.graph.node:
        is_product = node.op_type in _QUANTIZED
        # The second input of either product is its weights.
        if is_product and sizes.get(node.input[1], 0) >= _MIN_VALUES:
            names.append(node.name)
    return names


def describe_effect(
    before: Forward,
    after: Forward,
    sizes: tuple[int, int],
    lengths: Sequence[int],
) -> str:
    """Return the effect of quantisation in words: file size, and scores of noise.

    Args:
        before, after: Graphs before and after quantisation.
        sizes: Sizes of their files, in bytes.
        lengths: Numbers of samples at which scores are compared.
    """
    scores = []
    differences = []
    for samples in lengths:
        for gain in _GAINS:
            waveform_1T = gain * noise(1, samples)
            score = _score(before, waveform_1T)
            scores.append(score)
            differences.append(abs(_score(after, waveform_1T) - score))
    mean = sum(differences) / len(differences)
    large, small = (size / 1e6 for size in sizes)
    spread = f"from {min(scores):.3g} to {max(scores):.3g}"
    return (
        f"int8: {small:.1f} MB instead of {large:.1f} MB. The logits of bona fide of {len(scores)} "
        f"waveforms of noise, {spread}, differ by {max(differences):.2g} at most and by {mean:.2g} "
        "on average. Score one recording at a time, and compare the EER of your own list "
        "(docs/weights.md)."
    )


def _score(graph: Forward, waveform_1T: Tensor) -> float:
    with torch.no_grad():
        _, logits_12 = graph(waveform_1T)
    return float(logits_12[0, 1])
