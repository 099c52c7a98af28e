"""DF-Arena's detectors: a front end, gates for its layers, and a Conformer.

Invariant: the two directions are exact inverses. Besides the network's layers, a file holds the
vector of masked frames, which scores do not depend on, and the sines and cosines of positions,
which the network computes.

Source: the layers of Speech-Arena-2025/DF_Arena_1B_V_1 and _500M_V_1, and their feature extractor,
which repeats or cuts recordings to 64,600 samples and does not scale them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.hub.classifier_folder import FRONT_END, Recognised, own_names
from asdf.extras.zoo.layouts.published import POSITIONS, without
from asdf.extras.zoo.layouts.scored_as_published import published_length
from asdf.extras.zoo.layouts.sizes import back_end_sizes, find_architecture
from asdf.extras.zoo.networks.gated_conformer import SSL_GatedConformer
from asdf.interchange import hugging_face
from asdf.networks.back_ends.conformer import sinusoids
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.settings.sections import Sections, assign

KIND = "SSL_GatedConformer"
LAYOUT = "DF-Arena: a front end, gates for its layers and a Conformer with class token"
_WHOLE = "backbone."
_FRONT_END = "ssl_model."
_BACK_END = "back_end."
_MARKS = ("attn_scores.weight", "fc0.weight", "conformer.class_token")
_POSITIONS_HELD = 10_000
_ARCHITECTURE = "front_end.architecture"


def is_df_arena(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have DF-Arena's names."""
    names = {name.removeprefix(_WHOLE) for name in state}
    return names.issuperset(_MARKS) and any(name.startswith(_FRONT_END) for name in names)


def read_df_arena(state: Mapping[str, Tensor], path: Path, chosen: Mapping[str, Any]) -> Recognised:
    """Read a detector whose layers have DF-Arena's names.

    Args:
        path: Name of the file in messages.
        chosen: Settings by full name, which override those of the layers.

    Raises:
        AsdfError: the front end has unknown sizes, or layers have impossible shapes.
    """
    settings = Sections()
    read = Recognised(LAYOUT, settings, {})
    bare = {name.removeprefix(_WHOLE): tensor for name, tensor in state.items()}
    bare, positions = without(bare, POSITIONS)
    encoder = {}
    for name, tensor in bare.items():
        if name.startswith(_FRONT_END):
            encoder[name.removeprefix(_FRONT_END)] = tensor
        else:
            read.state[_BACK_END + name] = tensor
    layers, unused = hugging_face.torchaudio_names(encoder)
    read.state |= {FRONT_END + name: tensor for name, tensor in layers.items()}
    reasons = {
        "of positions, which the network computes": positions,
        "of the encoder's pretraining; scores do not depend on them": unused,
    }
    read.left_out = {reason: names for reason, names in reasons.items() if names}
    whole = _WHOLE if all(name.startswith(_WHOLE) for name in state) else ""
    values = {"network.network_class": f"asdf.networks.{KIND}", "network.score": "difference"}
    assign(settings, {**values, **chosen})
    if _ARCHITECTURE not in chosen:
        assign(settings, {_ARCHITECTURE: find_architecture(path, read.state)})
    _set_sizes(read, path, chosen)
    for name in Architecture.from_text(settings.front_end.architecture).shapes():
        own = f"{whole}{_FRONT_END}{hugging_face.hugging_face_name(name)}"
        read.own_names[FRONT_END + name] = own
    read.own_names |= own_names(read.state, state)
    read.notes += published_length(settings, KIND, chosen)
    read.notes.append("bona fide: the second output, as its program has it")
    return read


def _set_sizes(read: Recognised, path: Path, chosen: Mapping[str, Any]) -> None:
    try:
        sizes = back_end_sizes("SSL_ConformerTCM", read.state, read.settings)
    except (ValueError, KeyError, IndexError) as error:
        raise AsdfError(f"{path} has DF-Arena's layer names, but impossible shapes.") from error
    for size in sizes:
        # The width of the features is that of the front end here.
        if size.name not in chosen and size.name != "back_end.conformer_dimension":
            assign(read.settings, {size.name: size.value})
            read.notes.append(size.describe())


def df_arena_state(network: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a network under DF-Arena's names.

    Raises:
        AsdfError: it is another network, or its front end is not of the wav2vec 2.0 family.
    """
    front_end = getattr(network, "front_end", None)
    if not isinstance(network, SSL_GatedConformer) or not isinstance(front_end, Wav2Vec2FrontEnd):
        raise AsdfError(
            f"{type(network).__name__} cannot be written in DF-Arena's layout: a front end of the "
            f"wav2vec 2.0 family, gates and a Conformer: {KIND}."
        )
    if front_end.layers < front_end.encoder_layers:
        raise AsdfError(
            "programs for DF-Arena's layout read all layers of the front end, but this network "
            f"reads {front_end.layers} of {front_end.encoder_layers} (front_end.layer)."
        )
    named: dict[str, Tensor] = {}
    encoder = {}
    for name, tensor in network.state_dict().items():
        if name.startswith(FRONT_END):
            encoder[name.removeprefix(FRONT_END)] = tensor
        elif name.startswith(_BACK_END):
            named[_WHOLE + name.removeprefix(_BACK_END)] = tensor
        else:
            raise AsdfError(f"DF-Arena's layout has no layer for {name}.")
    for name, tensor in hugging_face.hugging_face_names(encoder).items():
        named[_WHOLE + _FRONT_END + name] = tensor
    positions = sinusoids(_POSITIONS_HELD, front_end.dimension).unsqueeze(0)
    return {**named, _WHOLE + POSITIONS: positions}
