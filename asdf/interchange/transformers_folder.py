"""A network as a folder with its code, which transformers loads without ASDF.

Invariant: the written code was executed before, from its own text, and gave the network's results;
the weights are loaded strictly by the names in the code. Nothing in the folder needs ASDF, which
can read it back as a network, even after further training with transformers.

Shapes: B utterances, T samples.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.safetensors import write_safetensors
from asdf.checkpoint.safetensors_network import (
    CARD,
    CONFIG,
    MARK,
    MODEL_TYPE,
    TRANSFORMERS_PREFIX,
    WEIGHTS,
)
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.interchange.exported_graphs import SAMPLES, noise
from asdf.interchange.hugging_face import PREPROCESSOR
from asdf.interchange.portable_network import PortableNetwork, portable_network
from asdf.interchange.portable_reducing import UnportableError
from asdf.interchange.transformers_code import CONFIGURATION, LICENCE, MODELING
from asdf.runs.files import write_text
from asdf.settings.sections import FRAME_SAMPLES
from asdf.version import VERSION

TOLERANCE = 1e-6
"""Tolerance for values up to 1; it is proportional to larger values."""

_NETWORK_MODULE = "network_asdf"
# The common length, and odd ones.
_LENGTHS = (9001, 20011, SAMPLES, 70001)


@dataclass(frozen=True)
class ScoringRule:
    """The computation of a recording's score, besides the network.

    Attributes:
        min_samples: Number of samples to which shorter recordings are repeated from their start.
        max_samples: Number of samples to which longer ones are cut.
        score: Kind of the score: 'bona_fide', the logit of bona fide, or 'difference', that minus
            the logit of spoof.
        threshold: Lowest score, or LLR of a calibrated network, of bona fide speech; None: unknown.
        calibration: Map from scores to natural-log likelihood ratios, as plain values; None: the
            network is not calibrated.
    """

    min_samples: int
    max_samples: int
    score: str
    threshold: float | None = None
    calibration: dict[str, Any] | None = None


@dataclass(frozen=True)
class WrittenFolder:
    """A written folder.

    Attributes:
        lines: Lines of the network's code.
        packages: Packages that the code imports, besides transformers.
        words: Sentence on the comparison.
    """

    lines: int
    packages: tuple[str, ...]
    words: str


def write_transformers_folder(
    folder: Path,
    network: nn.Module,
    file: NetworkFile,
    rule: ScoringRule,
    card: Callable[[WrittenFolder], str],
) -> WrittenFolder:
    """Write a network, in eval mode, for `AutoModelForAudioClassification` and pipelines.

    Args:
        card: Function that makes the model card, see `model_card_text`.

    Raises:
        AsdfError: the network is not supported, or the folder cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise AsdfError(f"cannot write the folder {folder}: a file of that name exists.")
    kind = type(network).__name__
    try:
        portable = portable_network(network, VERSION)
        words = _compare(network, portable)
    except UnportableError as error:
        raise UnportableError(
            f"{kind} cannot be written for transformers: {error}. Nothing was written. Use "
            "--format hub to write it for ASDF."
        ) from error
    tensors = {f"{TRANSFORMERS_PREFIX}{name}": each for name, each in portable.state.items()}
    write_safetensors(folder / WEIGHTS, tensors, MARK)
    write_text(folder / f"{_NETWORK_MODULE}.py", portable.source)
    write_text(folder / "configuration_asdf.py", CONFIGURATION)
    write_text(folder / "modeling_asdf.py", MODELING)
    write_text(folder / "LICENSE.code", LICENCE)
    write_text(folder / PREPROCESSOR, _json(_PREPROCESSING))
    written = WrittenFolder(len(portable.source.splitlines()), portable.packages, words)
    write_text(folder / CARD, card(written))
    # Written last: a folder counts as a network once it has its configuration.
    write_text(folder / CONFIG, _json(_configuration(file, rule, portable)))
    return written


_PREPROCESSING = {
    "feature_extractor_type": "Wav2Vec2FeatureExtractor",
    "feature_size": 1,
    "sampling_rate": SAMPLE_RATE,
    "padding_value": 0.0,
    # The preparation of waveforms is part of the network's code.
    "do_normalize": False,
    # Marks the length of each recording in a batch, so that padding is not heard.
    "return_attention_mask": True,
}


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def _configuration(
    file: NetworkFile, rule: ScoringRule, portable: PortableNetwork
) -> dict[str, Any]:
    labels = {"0": "spoof", "1": "bonafide"}
    # ASDF's description of the network, without the heads that are left out.
    description = file.description()
    for name in ("heads", "sources"):
        description.pop(name, None)
    sections = dict(description.get("settings") or {})
    if "localisation" in sections:
        sections["localisation"] = {**sections["localisation"], "enabled": False}
    return {
        "architectures": ["AsdfDetector"],
        "auto_map": {
            "AutoConfig": "configuration_asdf.AsdfDetectorConfig",
            "AutoModelForAudioClassification": "modeling_asdf.AsdfDetector",
        },
        "model_type": MODEL_TYPE,
        "id2label": labels,
        "label2id": {label: int(number) for number, label in labels.items()},
        "sampling_rate": SAMPLE_RATE,
        **asdict(rule),
        "dtype": "float32",
        "asdf": {**description, "settings": sections, "fixed": list(portable.fixed)},
    }


def _compare(network: nn.Module, portable: PortableNetwork) -> str:
    """Run the code and compare its results with the network's; return the outcome, in words.

    Raises:
        UnportableError: it fails, or gives other results.
    """
    shortest = int(getattr(network, "shortest_input", FRAME_SAMPLES))
    lengths = (max(shortest // 3, 1), shortest, *_LENGTHS)
    largest = 0.0
    with _imported(portable.source) as module:
        try:
            copy = module.build_network().eval()
            copy.load_state_dict(portable.state)
            for samples in lengths:
                largest = max(largest, _difference(network, copy, noise(2, samples)))
        # Such an error already gives the reason.
        except UnportableError:
            raise
        except Exception as error:  # of any kind, from code that was never run before
            raise UnportableError(
                f"its code does not run by itself: {type(error).__name__}: {error}"
            ) from error
    shown = ", ".join(f"{samples:,}" for samples in lengths[:-1])
    return (
        f"its code, run without ASDF on waveforms of {shown} and {lengths[-1]:,} samples, differs "
        f"from the network by {largest:.1e} at most"
    )


@contextmanager
def _imported(source: str) -> Iterator[ModuleType]:
    """Execute generated code as a separate module."""
    name = f"_asdf_{_NETWORK_MODULE}"
    module = ModuleType(name)
    # Dataclasses look up their module while they are created.
    sys.modules[name] = module
    try:
        exec(compile(source, f"{_NETWORK_MODULE}.py", "exec"), module.__dict__)
        yield module
    finally:
        del sys.modules[name]


def _difference(network: nn.Module, copy: nn.Module, waveforms_BT: Tensor) -> float:
    """Return the largest difference of embeddings and logits.

    Raises:
        UnportableError: it is too large.
    """
    largest = 0.0
    with torch.no_grad():
        expected = tuple(network(waveforms_BT))
        results = tuple(copy(waveforms_BT))
    for expected_BX, result_BX in zip(expected, results, strict=True):
        difference = float((expected_BX - result_BX).abs().max())
        # NaN is not within the tolerance.
        if not difference <= TOLERANCE * max(1.0, float(expected_BX.abs().max())):
            raise UnportableError(
                f"its code gives different values for {waveforms_BT.shape[1]:,} samples, by "
                f"{difference:.2g}"
            )
        largest = max(largest, difference)
    return largest
