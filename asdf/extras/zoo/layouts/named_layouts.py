"""A detector in a layout that a map of names describes, as a network of ASDF.

DeepFense's config.yaml next to a checkpoint describes how its program scores: only plain values
that scores depend on are read; values that ASDF does not support are refused, and missing ones are
the toolkit's defaults.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asdf.checkpoint.base_weights import first_names
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.classifier_folder import FRONT_END, Recognised, own_names
from asdf.extras.zoo.layouts.implied_settings import (
    ARCHITECTURE,
    SHAPES,
    find_architecture,
    published_length,
    set_sizes,
    whole_recordings,
)
from asdf.extras.zoo.layouts.name_maps import NameMap
from asdf.facts import SAMPLE_RATE
from asdf.interchange.front_end_weights import read_front_end_weights, rename_front_end
from asdf.networks.build import build_network
from asdf.networks.casting import without_numbers
from asdf.networks.front_ends.architectures import Architecture
from asdf.settings.catalogue import catalogue
from asdf.settings.mistakes import Complaint
from asdf.settings.sections import Sections, assign
from asdf.settings.value_checks import check_value
from asdf.text import shorten

WEIGHTS = "front_end.weights"
_MASK_EMBEDDING = "mask_emb"
_NORMALIZE = "front_end.normalize_waveforms"
_CONVOLUTIONS = "feature_extractor.conv_layers.0."
_PRETRAINING = "of the front end's pretraining; scores do not depend on them"
_COMPUTED = "of fixed numbers, which the network computes"


def read_named(
    name_map: NameMap, state: Mapping[str, Tensor], path: Path, chosen: Mapping[str, Any]
) -> Recognised:
    """Read a detector in the layout of `name_map`.

    Args:
        state: Layers by the file's names.
        path: Name of the file in messages.
        chosen: Settings by full name, which override those of the layers. With `front_end.weights`,
            a file of only trained weights becomes a complete network.

    Raises:
        AsdfError: layers have impossible shapes, or other values than the program computes; the
            front end is missing, or has unknown sizes.
    """
    others = {name: value for name, value in chosen.items() if name != WEIGHTS}
    read = Recognised(name_map.layout, Sections(), {})
    kind = f"asdf.networks.{name_map.kind}"
    assign(read.settings, {"network.network_class": kind, **name_map.settings, **others})
    samples = name_map.samples
    note: list[str] = []
    if name_map.has_config:
        samples, stated, *note = _read_config(path, samples)
        assign(read.settings, {**stated, **others})
    prefix = name_map.wrapped_in
    wrap = prefix if all(name.startswith(prefix) for name in state) else ""
    bare = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    rest = _sort_layers(name_map, bare, read, path)
    if name_map.front_end:
        start = name_map.front_end
        names = [name for name in rest if name.startswith(start)]
        encoder = {name.removeprefix(start): rest.pop(name) for name in names}
        _read_front_end(name_map, encoder, read, path, chosen)
    # A layer without a name of ours keeps its own, and is reported as unknown.
    read.state |= {name_map.our_name(name) or name: tensor for name, tensor in rest.items()}
    for name, conversion in name_map.conversions.items():
        if name not in read.state:
            continue
        tensor = read.state[name]
        outputs = len(tensor) if tensor.dim() else 0
        if outputs != conversion.outputs:
            raise AsdfError(
                f"{path}: the layer {name_map.their_name(name)} has {outputs} outputs, and "
                f"{name_map.name}'s detectors have {conversion.outputs}. It was trained for "
                "another task."
            )
        read.state[name] = conversion.to_ours(tensor)
    whose = f"{name_map.name} ({first_names(sorted(name_map.marks))})"
    read.notes += set_sizes(name_map.kind, read.state, read.settings, others, path, whose)
    # Also those that the file lacks.
    with without_numbers():
        ours = list(build_network(read.settings).state_dict())
    named = {name: name_map.their_name(name) for name in ours}
    read.own_names |= {name: theirs for name, theirs in named.items() if theirs is not None}
    read.own_names = {name: wrap + own for name, own in read.own_names.items()}
    read.own_names |= own_names(read.state, state)
    if samples is None:
        read.notes += whole_recordings(read.settings, others)
    else:
        read.notes += published_length(read.settings, name_map.kind, others, samples)
    read.notes += [*note, *name_map.remarks, f"bona fide: {name_map.bona_fide}"]
    return read


def _sort_layers(
    name_map: NameMap, state: Mapping[str, Tensor], read: Recognised, path: Path
) -> dict[str, Tensor]:
    """Return the layers without computed or irrelevant ones, which are recorded."""
    rest = dict(state)
    constants = {name: each for name, each in name_map.constants().items() if name in rest}
    for name, expected in constants.items():
        tensor = rest.pop(name)
        is_same = tensor.shape == expected.shape
        # float(): `allclose` needs equal dtypes, and a file may be in half precision.
        if not is_same or not torch.allclose(tensor.float(), expected, rtol=1e-4, atol=1e-5):
            raise AsdfError(
                f"{path}: the layer {name} holds other values than {name_map.name}'s program "
                "computes. Its network cannot be rebuilt: only the published ones are supported."
            )
    left_out = {_COMPUTED: list(constants)}
    for reason, prefixes in name_map.unused.items():
        left_out[reason] = [name for name in rest if name.startswith(prefixes)]
        rest = {name: tensor for name, tensor in rest.items() if not name.startswith(prefixes)}
    read.left_out |= {reason: names for reason, names in left_out.items() if names}
    return rest


def _read_front_end(
    name_map: NameMap,
    encoder: Mapping[str, Tensor],
    read: Recognised,
    path: Path,
    chosen: Mapping[str, Any],
) -> None:
    """Take the layers of the front end from the file or from `front_end.weights`."""
    if not encoder:
        layers = _fetch_front_end(name_map, read, path, chosen)
    else:
        if not any(name.startswith(_CONVOLUTIONS) for name in encoder):
            raise AsdfError(
                f"{path} is a detector of {name_map.name} whose front end is not of the wav2vec "
                f"2.0 family: it has no layers {name_map.front_end}{_CONVOLUTIONS}*, but "
                f"{first_names([name_map.front_end + name for name in encoder])}. Such detectors "
                "are not supported."
            )
        layers, unused = rename_front_end(encoder)
        # The only layer of pretraining that training with masks uses.
        if chosen.get("front_end.time_mask_proportion") and _MASK_EMBEDDING in unused:
            unused.remove(_MASK_EMBEDDING)
            read.state["front_end.masking.embedding"] = encoder[_MASK_EMBEDDING]
        if unused:
            read.left_out[_PRETRAINING] = [name_map.front_end + name for name in unused]
    read.state |= {FRONT_END + name: tensor for name, tensor in layers.items()}
    if ARCHITECTURE not in chosen and encoder:
        named = find_architecture(path, read.state)
        assign(read.settings, {ARCHITECTURE: named})
        read.notes.append(f"{ARCHITECTURE} = {named!r}, {SHAPES}")
    architecture = Architecture.from_text(read.settings.front_end.architecture)
    shapes = architecture.shapes()
    theirs = name_map.encoder_names({name: name for name in shapes}, architecture)
    read.own_names |= {FRONT_END + ours: name for name, ours in theirs.items()}
    if _NORMALIZE not in chosen:
        normalizes = name_map.scales(architecture)
        assign(read.settings, {_NORMALIZE: normalizes})
        reason = "as published"
        if name_map.normalizes is None:
            reason = "as s3prl has it for such front ends"
        read.notes.append(f"{_NORMALIZE} = {normalizes}, {reason}")


def _fetch_front_end(
    name_map: NameMap, read: Recognised, path: Path, chosen: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Return the layers of `front_end.weights`, which a file without a front end needs."""
    named = chosen.get(WEIGHTS)
    if named is None:
        remedy = "It is damaged, or part of a detector."
        if name_map.may_lack_front_end:
            remedy = (
                "Its authors publish the trained part without it. Name the front end's weights "
                f"after the command: {WEIGHTS}=NAME, a file, a folder or a repository of the hub."
            )
        raise AsdfError(
            f"{path} holds {name_map.layout.partition(':')[0]}'s back end alone; the front end's "
            f"layers, {name_map.front_end}*, are missing. {remedy}"
        )
    expected = Architecture.from_text(read.settings.front_end.architecture)
    weights = read_front_end_weights(str(named), expected)
    assign(read.settings, {ARCHITECTURE: weights.architecture.to_text()})
    read.notes.append(f"front end: {weights.source}, {weights.architecture.to_text()}")
    return dict(weights.layers)


CONFIG = "config.yaml"
_MAX_BYTES = 1_000_000
_LENGTH = "network.max_evaluation_utterance_length_in_samples"
# Values of AASIST; no published configuration has others.
_FIXED = {"pool_ratios": [0.5, 0.7, 0.5, 0.5], "temperatures": [2.0, 2.0, 100.0, 100.0]}
_SETTINGS = {"activation": "back_end.deepfense_activation", "dilation": "back_end.nes2net_dilation"}


def _read_config(path: Path, usual: int | None) -> tuple[int | None, dict[str, Any], str]:
    """Read the config.yaml in the folder of DeepFense's checkpoint.

    Returns:
        Number of samples that are scored (`usual` by the toolkit's defaults, None for whole
        recordings), settings by full name, and a note on them.

    Raises:
        AsdfError: it is damaged, or states values that ASDF does not support.
    """
    config = (path if path.is_dir() else path.parent) / CONFIG
    if not config.is_file():
        return usual, {}, f"by DeepFense's defaults: no {CONFIG} lies next to it"
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        install = "pip install 'asdf-antispoofing[hub]'"
        note = f"by DeepFense's defaults: {CONFIG} needs the package pyyaml, {install}"
        return usual, {}, note
    try:
        if config.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    # An invalid date is a ValueError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise AsdfError(
            f"{config} cannot be read as the configuration of DeepFense ({shorten(str(error))}). "
            "Without it the toolkit's defaults apply: remove it if it belongs to something else."
        ) from error
    data, model = _part(content, "data"), _part(content, "model")
    _check_labels(data, model, config)
    arguments = _part(_part(model, "backend"), "args")
    for name, only in _FIXED.items():
        if arguments.get(name, only) != only:
            raise AsdfError(
                f"{config}: {name} = {reprlib.repr(arguments[name])}. ASDF supports DeepFense's "
                f"AASIST with {only}: its scores would differ."
            )
    samples = _scored_samples(data, usual)
    stated = {setting: arguments.get(name) for name, setting in _SETTINGS.items()}
    settings = {name: value for name, value in stated.items() if isinstance(value, str | int)}
    values = settings if samples is None else {**settings, _LENGTH: samples}
    for setting, value in values.items():
        try:
            checked = check_value(catalogue()[setting], value)
        except Complaint as complaint:
            raise AsdfError(
                f"{config} has a value that {setting} does not accept: {complaint.text}. Such "
                "detectors of DeepFense are not supported."
            ) from None
        if setting in settings:
            settings[setting] = checked
    return samples, settings, f"how it is scored: by {CONFIG} next to it"


def _scored_samples(data: Mapping[str, Any], usual: int | None) -> int | None:
    """Return the length to which tests, or else validation, cut or repeat recordings."""
    transforms: list[Any] = []
    for part in ("test", "val"):
        listed = _part(data, part).get("base_transform")
        transforms += listed if isinstance(listed, list) else []
    pads = [each for each in transforms if isinstance(each, Mapping) and each.get("type") == "pad"]
    samples = pads[0].get("max_len") if pads else usual
    return samples if isinstance(samples, int) and samples > 0 else None


def _check_labels(data: Mapping[str, Any], model: Mapping[str, Any], config: Path) -> None:
    """Refuse labels and rates other than those used for scores."""
    losses = model.get("loss")
    loss = losses[0] if isinstance(losses, list) and losses else losses
    labels = [_part(data, "label_map").get("bonafide", 1)]
    if isinstance(loss, Mapping):
        labels.append(loss.get("bonafide_label", 1))
    if any(label != 1 for label in labels):
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


def _part(content: Any, name: str) -> Mapping[str, Any]:
    part = content.get(name) if isinstance(content, Mapping) else None
    return part if isinstance(part, Mapping) else {}
