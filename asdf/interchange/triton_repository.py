"""A network as a model repository of Triton Inference Server, with a manifest for KServe.

Invariant: the graph is the one of `--format onnx`, which was compared with the network; requests of
different lengths are never padded into one batch, because Triton batches equal shapes.

Source: Triton's model configuration (model_config.proto) and model repository layout; KServe's
InferenceService, v1beta1.

Shapes: B utterances.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from asdf.facts import SAMPLE_RATE
from asdf.interchange.exported_graphs import SAMPLES, noise
from asdf.interchange.onnx_graphs import INPUT, OUTPUTS, Graph, compared_graph
from asdf.runs.files import atomic_write, write_text

CONFIG = "config.pbtxt"
MANIFEST = "inferenceservice.yaml"
# An utterance of 4 s takes a few milliseconds; longer waits gain little.
_MAX_DELAY_US = 5000
_MAX_BATCH = 32

_CONFIG = """# Model configuration of Triton Inference Server. {about}
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: {max_batch}
input [
  {{
    name: "{input}"
    data_type: TYPE_FP32
    dims: [ {samples} ]
  }}
]
output [
{outputs}
]
{batching}{parameters}
"""
_BATCHING = f"""# Requests of one length share a batch; others wait for none of them.
dynamic_batching {{
  max_queue_delay_microseconds: {_MAX_DELAY_US}
}}
"""
_MANIFEST = """# KServe: put the model repository {repository} where storageUri says, then
#   kubectl apply -f {manifest}
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {name}
spec:
  predictor:
    model:
      modelFormat:
        name: triton
      runtime: kserve-tritonserver
      protocolVersion: v2
      # A claim and a folder of it, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or https://...
      storageUri: pvc://CLAIM/FOLDER
      resources:
        requests:
          cpu: "1"
          memory: {memory}
        limits:
          memory: {memory}
"""


def write_triton_repository(
    folder: Path,
    name: str,
    network: nn.Module,
    facts: Mapping[str, Any],
    samples: int | None = None,
    int8: bool = False,
) -> str:
    """Write `network`, in eval mode, as the only model of a repository; return a description.

    Args:
        folder: New folder of the repository, in which `name` is the model.
        facts: Further facts for clients, written as the model's parameters.
        samples: Fixed length that it takes; None: any, or the common length where that fails.
        int8: Whether to quantise its large linear layers.

    Raises:
        AsdfError: a package is missing, or the folder cannot be written.
        GraphError: it cannot be exported, or its graph gives other results.
    """
    model = model_name(name)
    graph = compared_graph(network, samples, int8)
    config = model_config(model, network, graph, facts, int8)
    with atomic_write(folder / model / "1" / "model.onnx", "wb") as file:
        file.write(graph.content)
    # Four times the graph: weights, activations of a batch, and the runtime.
    mebibytes = max(512, 4 * len(graph.content) // 2**20)
    manifest = _MANIFEST.format(
        name=model.replace("_", "-"),
        repository=folder.resolve().name,
        manifest=MANIFEST,
        memory=f"{mebibytes}Mi",
    )
    write_text(folder / MANIFEST, manifest)
    # Written last: Triton loads a model once it has its configuration.
    write_text(folder / model / CONFIG, config)
    return (
        f"{graph.words}\n"
        f"serve it: tritonserver --model-repository={folder}; the model is {model!r}\n"
        f"for KServe set storageUri in {folder / MANIFEST}"
    )


def model_name(text: str) -> str:
    """Return a name that Triton, files and Kubernetes (with '-' for '_') accept."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    # Cut: Kubernetes allows 63 characters, and KServe appends to the name.
    return name[:50].strip("_") or "detector"


def model_config(
    name: str, network: nn.Module, graph: Graph, facts: Mapping[str, Any], int8: bool
) -> str:
    """Return the model configuration, in the text format of protocol buffers.

    Args:
        int8: Whether the graph quantises inputs over a whole batch, and so gets one at a time.
    """
    length = graph.only or SAMPLES
    with torch.no_grad():
        results = tuple(network(noise(1, length)))
    outputs = []
    for output, values_BX in zip(OUTPUTS, results, strict=True):
        sizes = ", ".join(map(str, values_BX.shape[1:]))
        outputs.append(
            f'  {{\n    name: "{output}"\n    data_type: TYPE_FP32\n    dims: [ {sizes} ]\n  }}'
        )
    max_batch = _MAX_BATCH
    batching = _BATCHING
    if int8:
        max_batch = 1
        batching = ""
    parameters = []
    for key, value in facts.items():
        parameters.append(
            f"parameters {{\n  key: {_quoted(key)}\n"
            f"  value {{\n    string_value: {_quoted(value)}\n  }}\n}}"
        )
    lengths = "of any length" if graph.only is None else f"of {graph.only:,} samples"
    rate = f"{int(facts.get('sampling_rate', SAMPLE_RATE)) / 1000:g} kHz"
    return _CONFIG.format(
        about=f"It takes speech at {rate}, {lengths}; logits are those of spoof and bona fide.",
        name=name,
        max_batch=max_batch,
        input=INPUT,
        samples=graph.only or -1,  # -1 is any length to Triton
        outputs=",\n".join(outputs),
        batching=batching,
        parameters="\n".join(parameters),
    )


def _quoted(value: object) -> str:
    """Return a text as a string literal of the format."""
    # Other bytes as octal numbers, which the text format of protocol buffers reads.
    escaped = []
    for byte in str(value).encode():
        is_plain = 32 <= byte < 127 and chr(byte) not in '"\\'
        escaped.append(chr(byte) if is_plain else f"\\{byte:03o}")
    return f'"{"".join(escaped)}"'
