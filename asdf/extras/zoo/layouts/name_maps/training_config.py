"""DeepFense's config.yaml next to a checkpoint, which describes scoring in its program.

Invariant: only plain values that scores depend on are read; values that ASDF does not support are
refused, and missing ones are the toolkit's defaults.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.settings.catalogue import catalogue
from asdf.settings.mistakes import Complaint
from asdf.settings.value_checks import check_value
from asdf.text import shorten

CONFIG = "config.yaml"
_MAX_BYTES = 1_000_000
_SAMPLES = 64_000
_LENGTH = "network.max_evaluation_utterance_length_in_samples"
# Values of AASIST; no published configuration has others.
_FIXED = {"pool_ratios": [0.5, 0.7, 0.5, 0.5], "temperatures": [2.0, 2.0, 100.0, 100.0]}
_SETTINGS = {"activation": "back_end.deepfense_activation", "dilation": "back_end.nes2net_dilation"}


@dataclass(frozen=True)
class Stated:
    """The relevant content of a configuration next to a checkpoint.

    Attributes:
        samples: Number of samples that are scored; None: whole recordings.
        settings: Settings by full name.
        notes: Sentences on the settings.
    """

    samples: int | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_stated(path: Path) -> Stated:
    """Read the config.yaml in the folder of a checkpoint.

    Args:
        path: Path of the checkpoint, or of the folder.

    Raises:
        AsdfError: it is damaged, or states values that ASDF does not support.
    """
    config = (path if path.is_dir() else path.parent) / CONFIG
    if not config.is_file():
        return Stated(_SAMPLES, notes=(f"by DeepFense's defaults: no {CONFIG} lies next to it",))
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        install = "pip install 'asdf-antispoofing[hub]'"
        note = f"by DeepFense's defaults: {CONFIG} needs the package pyyaml, {install}"
        return Stated(_SAMPLES, notes=(note,))
    if config.stat().st_size > _MAX_BYTES:
        raise AsdfError(f"{config} is too large for a configuration of DeepFense. Remove it.")
    try:
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    # An invalid date is a ValueError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise AsdfError(
            f"{config} cannot be read as the configuration of DeepFense ({shorten(str(error))}). "
            "Without it the toolkit's defaults apply: remove it if it belongs to something else."
        ) from error
    data = _part(content, "data")
    model = _part(content, "model")
    _check_labels(data, model, config)
    samples = _scored_samples(data)
    arguments = _part(_part(model, "backend"), "args")
    for name, usual in _FIXED.items():
        if arguments.get(name, usual) != usual:
            raise AsdfError(
                f"{config}: {name} = {reprlib.repr(arguments[name])}. ASDF supports DeepFense's "
                f"AASIST with {usual}: its scores would differ."
            )
    settings = {}
    for name, setting in _SETTINGS.items():
        if isinstance(arguments.get(name), str | int):
            settings[setting] = _checked(setting, arguments[name], config)
    if samples is not None:
        _checked(_LENGTH, samples, config)
    return Stated(samples, settings, (f"how it is scored: by {CONFIG} next to it",))


def _checked(setting: str, value: Any, config: Path) -> Any:
    """Return a value of the configuration in the form of its setting.

    Raises:
        AsdfError: the setting does not accept it.
    """
    try:
        return check_value(catalogue()[setting], value)
    except Complaint as complaint:
        raise AsdfError(
            f"{config} has a value that {setting} does not accept: {complaint.text}. Such "
            "detectors of DeepFense are not supported."
        ) from None


def _check_labels(data: Mapping[str, Any], model: Mapping[str, Any], config: Path) -> None:
    """Refuse labels and rates other than those used for scores.

    Raises:
        AsdfError: the bona fide label is not 1, or the rate not 16 kHz.
    """
    losses = model.get("loss")
    loss = losses[0] if isinstance(losses, list) and losses else losses
    labels = _part(data, "label_map")
    stated = [labels.get("bonafide", 1)]
    if isinstance(loss, Mapping):
        stated.append(loss.get("bonafide_label", 1))
    if stated != [1] * len(stated):
        raise AsdfError(
            f"{config} gives bona fide speech another label than 1 (label_map, bonafide_label): "
            "such detectors of DeepFense are not supported, and their scores might be inverted."
        )
    rate = data.get("sampling_rate", SAMPLE_RATE)
    if [rate, data.get("target_sr", rate)] != [SAMPLE_RATE, SAMPLE_RATE]:
        raise AsdfError(
            f"{config}: its recordings have {reprlib.repr(rate)} Hz, and recordings are read at "
            f"{SAMPLE_RATE:,} Hz here. Choose another detector."
        )


def _scored_samples(data: Mapping[str, Any]) -> int | None:
    """Return the length to which tests, or else validation, cut or repeat recordings."""
    for part in ("test", "val"):
        transforms = _part(data, part).get("base_transform")
        if not isinstance(transforms, list):
            continue
        for transform in transforms:
            if isinstance(transform, Mapping) and transform.get("type") == "pad":
                samples = transform.get("max_len")
                return samples if isinstance(samples, int) and samples > 0 else None
    return _SAMPLES


def _part(content: Any, name: str) -> Mapping[str, Any]:
    part = content.get(name) if isinstance(content, Mapping) else None
    return part if isinstance(part, Mapping) else {}
