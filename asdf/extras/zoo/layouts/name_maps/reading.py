"""A detector in a layout that a map of names describes, as a network of ASDF."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asdf.checkpoint.base_weights import first_names
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.hub.classifier_folder import FRONT_END, Recognised, own_names
from asdf.extras.zoo.layouts.name_maps.known import NameMap
from asdf.extras.zoo.layouts.name_maps.training_config import Stated
from asdf.extras.zoo.layouts.scored_as_published import published_length, whole_recordings
from asdf.extras.zoo.layouts.sizes import ARCHITECTURE, SHAPES, find_architecture, set_sizes
from asdf.interchange.front_end_weights import read_front_end_weights, rename_front_end
from asdf.networks.build import build_network
from asdf.networks.casting import without_numbers
from asdf.networks.front_ends.architectures import Architecture
from asdf.settings.sections import Sections, assign

WEIGHTS = "front_end.weights"
MASK = "front_end.masking.embedding"
MASK_EMBEDDING = "mask_emb"
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
    stated = Stated(name_map.samples)
    if name_map.stated is not None:
        stated = name_map.stated(path)
        assign(read.settings, {**stated.settings, **others})
    wrap = (
        name_map.wrapped_in if all(name.startswith(name_map.wrapped_in) for name in state) else ""
    )
    bare = {name.removeprefix(name_map.wrapped_in): tensor for name, tensor in state.items()}
    rest = _sort_layers(name_map, bare, read, path)
    if name_map.front_end:
        encoder, rest = _split_off(rest, name_map.front_end)
        _read_front_end(name_map, encoder, read, path, chosen)
    for name, tensor in rest.items():
        # A layer without a name of ours keeps its own, and is reported as unknown.
        read.state[name_map.our_name(name) or name] = tensor
    _convert_outputs(name_map, read, path)
    whose = f"{name_map.name} ({first_names(sorted(name_map.marks))})"
    read.notes += set_sizes(name_map.kind, read.state, read.settings, others, path, whose)
    read.own_names |= _names_of_all(name_map, read.settings)
    read.own_names = {name: wrap + own for name, own in read.own_names.items()}
    read.own_names |= own_names(read.state, state)
    if stated.samples is None:
        read.notes += whole_recordings(read.settings, others)
    else:
        read.notes += published_length(read.settings, name_map.kind, others, stated.samples)
    read.notes += (*stated.notes, *name_map.remarks)
    read.notes.append(f"bona fide: {name_map.bona_fide}")
    return read


def _names_of_all(name_map: NameMap, settings: Sections) -> dict[str, str]:
    """Return the layout's names of all layers of the network, including those not in a file."""
    with without_numbers():
        ours = list(build_network(settings).state_dict())
    names = {name: name_map.their_name(name) for name in ours}
    return {name: theirs for name, theirs in names.items() if theirs is not None}


def _sort_layers(
    name_map: NameMap, state: Mapping[str, Tensor], read: Recognised, path: Path
) -> dict[str, Tensor]:
    """Return the layers without computed or irrelevant ones, which are recorded."""
    rest = dict(state)
    constants = []
    for name, expected in name_map.constants().items():
        tensor = rest.pop(name, None)
        if tensor is None:
            continue
        is_same = tensor.shape == expected.shape
        # float(): `allclose` needs equal dtypes, and a file may be in half precision.
        if not is_same or not torch.allclose(tensor.float(), expected, rtol=1e-4, atol=1e-5):
            raise AsdfError(
                f"{path}: the layer {name} holds other values than {name_map.name}'s program "
                "computes. Its network cannot be rebuilt: only the published ones are supported."
            )
        constants.append(name)
    if constants:
        read.left_out[_COMPUTED] = constants
    for reason, prefixes in name_map.unused.items():
        names = [name for name in rest if name.startswith(prefixes)]
        for name in names:
            del rest[name]
        if names:
            read.left_out[reason] = names
    return rest


def _split_off(
    layers: Mapping[str, Tensor], prefix: str
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the layers with a prefix, without the prefix, and all others."""
    inside = {}
    others = {}
    for name, tensor in layers.items():
        if name.startswith(prefix):
            inside[name.removeprefix(prefix)] = tensor
        else:
            others[name] = tensor
    return inside, others


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
        _check_family(name_map, encoder, path)
        layers, unused = rename_front_end(encoder)
        # The only layer of pretraining that training with masks uses.
        if chosen.get("front_end.time_mask_proportion") and MASK_EMBEDDING in unused:
            unused.remove(MASK_EMBEDDING)
            read.state[MASK] = encoder[MASK_EMBEDDING]
        if unused:
            read.left_out[_PRETRAINING] = [name_map.front_end + name for name in unused]
    read.state |= {FRONT_END + name: tensor for name, tensor in layers.items()}
    if ARCHITECTURE not in chosen and encoder:
        named = find_architecture(path, read.state)
        assign(read.settings, {ARCHITECTURE: named})
        read.notes.append(f"{ARCHITECTURE} = {named!r}, {SHAPES}")
    architecture = Architecture.from_text(read.settings.front_end.architecture)
    shapes = architecture.shapes()
    for theirs, ours in name_map.encoder_names(
        {name: name for name in shapes}, architecture
    ).items():
        read.own_names[FRONT_END + ours] = theirs
    if _NORMALIZE not in chosen:
        normalizes = name_map.scales(architecture)
        assign(read.settings, {_NORMALIZE: normalizes})
        reason = "as published"
        if name_map.normalizes is None:
            reason = "as s3prl has it for such front ends"
        read.notes.append(f"{_NORMALIZE} = {normalizes}, {reason}")


def _check_family(name_map: NameMap, encoder: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a front end of another family than wav2vec 2.0.

    Raises:
        AsdfError: it has no convolutions with the names that all programs use.
    """
    if any(name.startswith(_CONVOLUTIONS) for name in encoder):
        return
    names = [name_map.front_end + name for name in encoder]
    raise AsdfError(
        f"{path} is a detector of {name_map.name} whose front end is not of the wav2vec 2.0 "
        f"family: it has no layers {name_map.front_end}{_CONVOLUTIONS}*, but {first_names(names)}. "
        "Such detectors are not supported."
    )


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


def _convert_outputs(name_map: NameMap, read: Recognised, path: Path) -> None:
    """Convert the output layers to ours.

    Raises:
        AsdfError: a layer has another number of outputs.
    """
    for name, conversion in name_map.conversions.items():
        tensor = read.state.get(name)
        if tensor is None:
            continue
        outputs = len(tensor) if tensor.dim() else 0
        if outputs != conversion.outputs:
            raise AsdfError(
                f"{path}: the layer {name_map.their_name(name)} has {outputs} outputs, and "
                f"{name_map.name}'s detectors have {conversion.outputs}. It was trained for "
                "another task."
            )
        read.state[name] = conversion.to_ours(tensor)
