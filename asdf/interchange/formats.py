"""Whole detectors in the layouts that they are published and saved in, as networks of ASDF.

Invariant: every layer of a file is a layer of the network, or is left out for a reason that is told. What the shapes
of the layers do not tell of a network is the published value, a setting that the caller gives, or an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError
from asdf.interchange.fitting import PUBLISHED_FRONT_END, some
from asdf.interchange.hugging_face import CONFIG, folder_of, read_json
from asdf.interchange.network_file import EXTRA, FORMAT, read_network_file, settings_in
from asdf.interchange.published import is_published, own_names, without_unused
from asdf.interchange.sizes import (
    ARCHITECTURE,
    FRONT_END,
    SHAPES,
    architecture_of,
    back_end_sizes,
    network_class,
)
from asdf.interchange.weights_file import (
    STATE_KEYS,
    check_names,
    check_tensors,
    read_weights_file,
    state_dict_in,
)
from asdf.settings.sections import Sections, assign
from asdf.settings.weights_names import BUNDLE
from asdf.text import shorten
from asdf.trials.scored_length import PUBLISHED, ScoredLength

OWN = "a network of ASDF"
ORIGINAL = "a checkpoint of the original ASDF"
LAYOUTS = {
    "AASIST": "raw-waveform AASIST",
    "AASIST_L": "raw-waveform AASIST-L",
    "SSL_AASIST": "SSL_Anti-spoofing: wav2vec 2.0 and AASIST",
    "SSL_AASIST_L": "SSL_Anti-spoofing's layout: wav2vec 2.0 and AASIST-L",
    "SSL_SLS": "SLS: wav2vec 2.0 and sensitive layer selection",
    "SSL_Nes2NetX": "Nes2Net-X: wav2vec 2.0 and Nes2Net-X",
}
READ = (
    f"Read are {OWN}, {ORIGINAL}, published networks of SSL_Anti-spoofing, SLS and Nes2Net-X with their front end "
    f"({PUBLISHED_FRONT_END}*), and raw-waveform AASIST and AASIST-L"
)
_PRETRAINING = "of the front end's pretraining; scores do not depend on them"
_TRAINING = "of the training that made it"
_MIN_SCORED = "network.min_evaluation_utterance_length_in_samples"
_MAX_SCORED = "network.max_evaluation_utterance_length_in_samples"
_UNUSED = "of a norm whose output the published code does not use; scores do not depend on them"


@dataclass
class Recognised:
    """A detector that was read.

    Attributes:
        layout: what the file was recognised as.
        state: layers under our names.
        left_out: names of layers and entries that were left out, by reason.
        notes: what the reader should know of the settings.
        extra: entries for the network file, as 'calibration'.
    """

    layout: str
    settings: Sections
    state: dict[str, Tensor]
    left_out: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


def recognise(path: Path, given: Mapping[str, Any]) -> Recognised:
    """Read a detector in any layout.

    Args:
        given: settings by their full names, such as 'front_end.architecture'; they count more than the file's.

    Raises:
        AsdfError: the file cannot be read, is no detector, or does not tell enough of its network.
    """
    content = _content(path)
    if content.get("format") == FORMAT:
        return _own(content, path, given)
    nested = next((key for key in STATE_KEYS if isinstance(content.get(key), Mapping)), None)
    inside = content[nested] if nested else content
    extra = [name for name in EXTRA if name in inside]
    state = state_dict_in(
        {name: value for name, value in inside.items() if name not in extra}, path
    )
    plain = [
        str(name)
        for name, value in inside.items()
        if not isinstance(value, Tensor) and name not in extra
    ]
    others = [*(str(key) for key in content if nested and key != nested), *extra, *plain]
    left_out = {_TRAINING: others} if others else {}
    state, unused = without_unused(state)
    left_out |= {_UNUSED: unused} if unused else {}
    if is_published(state):
        state, not_used = own_names(state, masked=bool(given.get("front_end.time_mask_proportion")))
        left_out |= {_PRETRAINING: not_used} if not_used else {}
    kind = network_class(state)
    if kind is None or (
        kind.startswith("SSL_") and not any(name.startswith(FRONT_END) for name in state)
    ):
        raise AsdfError(_no_detector(path, state, kind))
    settings, notes = Sections(), []
    values: dict[str, Any] = {"network.network_class": f"asdf.networks.{kind}", **given}
    if kind.startswith("SSL_") and ARCHITECTURE not in given:
        values[ARCHITECTURE] = architecture_of(path, state)
        notes.append(f"{ARCHITECTURE} = {values[ARCHITECTURE]!r}, {SHAPES}")
    assign(settings, values)
    try:
        told = back_end_sizes(kind, state, settings)
    except (ValueError, KeyError, IndexError) as error:
        raise AsdfError(
            f"{path} has layers named as those of {kind}, but of shapes that it cannot have."
        ) from error
    told = [(name, value, why) for name, value, why in told if name not in given]
    assign(settings, {name: value for name, value, _ in told})
    notes += [f"{name} = {value!r}, {why}" for name, value, why in told]
    if nested != "model_state_dict":
        notes += _score_as_published(settings, kind, given)
    layout = LAYOUTS[kind] if nested != "model_state_dict" else f"{ORIGINAL}; {LAYOUTS[kind]}"
    return Recognised(layout, settings, state, left_out, notes)


def _score_as_published(settings: Sections, kind: str, given: Mapping[str, Any]) -> list[str]:
    """Set how much of a recording is scored to what the published programs score, and say so.

    The data sets of AASIST, SSL_Anti-spoofing, SLS and Nes2Net-X (`data_utils.py`, `data_utils_SSL.py`) hand on the
    first 64,600 samples of a trial, and repeat a shorter one from its start. An SLS of another size takes its own.
    """
    published = settings.back_end.sls_samples if kind == "SSL_SLS" else PUBLISHED.max_samples
    chosen = {name: published for name in (_MIN_SCORED, _MAX_SCORED) if name not in given}
    # Where one of the two was given, the other must not contradict it.
    if _MIN_SCORED in given and _MAX_SCORED in chosen:
        chosen[_MAX_SCORED] = max(published, given[_MIN_SCORED])
    if _MAX_SCORED in given and _MIN_SCORED in chosen:
        chosen[_MIN_SCORED] = min(published, given[_MAX_SCORED])
    if not chosen:
        return []
    assign(settings, chosen)
    network = settings.network
    scored = ScoredLength(
        network.min_evaluation_utterance_length_in_samples,
        network.max_evaluation_utterance_length_in_samples,
    )
    why = ", as published" if scored.min_samples == scored.max_samples == published else ""
    names = " and ".join(f"{name} = {value}" for name, value in chosen.items())
    return [f"scored{why}: {scored.describe()} ({names})"]


def _content(path: Path) -> Mapping[str, Any]:
    if str(path).startswith(BUNDLE):
        raise AsdfError(_front_end_alone(str(path), "is a bundle of torchaudio"))
    if path.is_dir() and folder_of(path) and read_json(path / CONFIG).get("format") != FORMAT:
        raise AsdfError(_front_end_alone(str(path), "holds a network of Hugging Face"))
    if path.is_dir() or path.suffix == ".safetensors":
        return read_network_file(path)
    return read_weights_file(path)


def _own(content: Mapping[str, Any], path: Path, given: Mapping[str, Any]) -> Recognised:
    settings = settings_in(content, path)
    assign(settings, given)
    kept = {key: content[key] for key in ("calibration", "evaluation") if key in content}
    known = {"format", "version", "network_class", "settings", "model_state_dict", *kept}
    others = [str(key) for key in content if key not in known]
    state = dict(content["model_state_dict"])
    check_names(state, path)
    wrong = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if wrong is not None:
        raise AsdfError(
            f"{path} is damaged: its layer {shorten(wrong)} is a {type(state[wrong]).__name__}, not a tensor."
        )
    check_tensors(state, path)
    return Recognised(OWN, settings, state, {_TRAINING: others} if others else {}, extra=kept)


def _no_detector(path: Path, state: Mapping[str, Tensor], kind: str | None) -> str:
    if kind is not None:
        return (
            f"{path} holds the back end of {kind} alone; its front end's layers, "
            f"{PUBLISHED_FRONT_END}*, are missing."
        )
    own = any(name.startswith("back_end.") for name in state)
    if not own and any("feature_extractor.conv_layers.0." in name for name in state):
        return _front_end_alone(str(path), "holds a pretrained self-supervised network")
    return f"{path} is no detector that is known: it holds {some(list(state))}. {READ}."


def _front_end_alone(path: str, what: str) -> str:
    return (
        f"{path} {what}: a front end and no detector, it gives features and no scores. Train a network on it: "
        f"front_end.weights={path} in a config or on a recipe's command line."
    )
