"""Recognition of complete detectors in published and saved layouts, as networks of ASDF.

Invariant: every layer of a file is a layer of the network, or is left out for a reported reason.
What the shapes of the layers do not determine is the published value, a setting that the caller
chooses, or an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.base_weights import (
    ANTIDEEPFAKE_FRONT_END,
    PUBLISHED_FRONT_END,
    SPECTRA_FRONT_END,
    describe_layers,
)
from asdf.checkpoint.network_file import FORMAT, ORIGINAL_NUMBERS, NetworkFile
from asdf.checkpoint.network_reading import CONFIG, MODEL_TYPE, read_network_file
from asdf.checkpoint.weights_file import (
    AVERAGED,
    check_tensors,
    nested_key,
    read_json,
    read_weights_file,
    state_dict_in,
    without_prefix,
)
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.classifier_folder import (
    CLASSIFIERS,
    Recognised,
    describe_folder,
    head_size,
    is_classifier,
    open_classifier,
    own_names,
    read_classifier,
)
from asdf.extras.zoo.layouts.implied_settings import (
    ARCHITECTURE,
    FRONT_END,
    SHAPES,
    antideepfake_scoring,
    class_of_layers,
    find_architecture,
    published_length,
    set_sizes,
)
from asdf.extras.zoo.layouts.name_maps import NAME_MAPS, POSITIONS, name_map_of
from asdf.extras.zoo.layouts.named_layouts import read_named
from asdf.extras.zoo.layouts.published import (
    KIND,
    ONE_CLASS_LOSS,
    UNUSED_NORM,
    front_end_prefix,
    is_one_class,
    layout_of,
    one_class_entry,
    rename_published,
    split_one_class,
)
from asdf.interchange.fairseq import fairseq_names
from asdf.interchange.front_end_weights import is_antideepfake
from asdf.interchange.hugging_face import WEIGHTS, folder_of, read_state
from asdf.networks.front_ends.architectures import Architecture
from asdf.settings.front_end_values import BUNDLE
from asdf.settings.sections import FrontEnd, Sections, assign
from asdf.text import shorten

OURS = "a network of ASDF"
ORIGINAL = "a checkpoint of the original ASDF"
LAYOUTS = {
    "AASIST": "raw-waveform AASIST",
    "AASIST_L": "raw-waveform AASIST-L",
    "SSL_AASIST": "SSL_Anti-spoofing: wav2vec 2.0 and AASIST",
    "SSL_AASIST_L": "SSL_Anti-spoofing's layout: wav2vec 2.0 and AASIST-L",
    "SSL_SLS": "SLS: wav2vec 2.0 and sensitive layer selection",
    "SSL_Nes2NetX": "Nes2Net-X: wav2vec 2.0 and Nes2Net-X",
    "SSL_Conformer": "wav2vec 2.0 and a Conformer with class token",
    "SSL_ConformerTCM": "TCM: wav2vec 2.0 and a Conformer with temporal-channel modelling",
    "SSL_Mamba": "XLSR-Mamba: wav2vec 2.0 and two columns of Mamba blocks",
    "SSL_SpectraAASIST": "Spectra-AASIST: wav2vec 2.0 and AASIST with four branches",
    "SSL_SpectraAASIST3": "Spectra-AASIST3: the same with Kolmogorov-Arnold layers",
    "SSL_SpectraECAPA": "Spectra-0: wav2vec 2.0 and ECAPA-TDNN",
    "RawNet2": "raw-waveform RawNet2",
    KIND: "AntiDeepfake: a self-supervised front end, the mean over time and a linear layer",
    **{name_map.kind: name_map.layout for name_map in NAME_MAPS},
}
_COUNT_OF_ORIGINAL = "consecutive_lr_updates"
_ONE_CLASS = "AntiDeepfake's one-class variant: a self-supervised front end and a cosine"
# One toolkit may have several layouts.
_WHOSE = dict.fromkeys(name_map.name for name_map in NAME_MAPS)
_READABLE = (
    f"Readable are {OURS}, {ORIGINAL}, published networks of SSL_Anti-spoofing, SLS, Nes2Net-X, "
    f"Conformer, TCM and XLSR-Mamba with their front end ({PUBLISHED_FRONT_END}*), lab260's "
    f"Spectra ({SPECTRA_FRONT_END}*), those of AntiDeepfake ({ANTIDEEPFAKE_FRONT_END}* and "
    f"proj_fc), folders of transformers' audio classifiers, those of {', '.join(_WHOSE)}, "
    "and raw-waveform AASIST, AASIST-L and RawNet2"
)
# Layers saved by pretraining: convolutions, encoder, and parts for its own task, in fairseq,
# Hugging Face and torchaudio. Any other layer may be a head that gives scores.
_FRONT_END_LAYER = re.compile(
    r"(wav2vec2\.|hubert\.|wavlm\.|model\.|ssl_model\.model\.|w2v_encoder\.w2v_model\.)?"
    r"(feature_extractor|feature_projection|encoder|post_extract_proj|layer_norm|mask_emb|"
    r"masked_spec_embed|quantizer|project_q|project_hid|project_inp|final_proj|label_embs_concat|"
    r"target_glu|aux|lm_head)\b"
)
_PRETRAINING = "of the front end's pretraining; scores do not depend on them"
TRAINING = "of the training that made it"
_COMPUTED = "of positions, which the network computes"
_UNUSED = "of a norm whose output the published code does not use; scores do not depend on them"


def recognise(path: Path, chosen: Mapping[str, Any], bona_fide: Sequence[str] = ()) -> Recognised:
    """Read a detector in any layout.

    Args:
        chosen: Settings by full name, such as 'front_end.architecture', which override those of the
            file.
        bona_fide: Names or numbers of the bona fide classes of a classifier; (): by class names.

    Raises:
        UsageError: the file has no such class, or no classes.
        AsdfError: the file cannot be read, is not a detector, or describes its network
            incompletely.
    """
    read = _read_folder(path, chosen, bona_fide)
    if read is not None:
        return read
    # A front end alone is the most likely mistake: its message states its use.
    if str(path).startswith(BUNDLE):
        raise AsdfError(_front_end_alone(str(path), "is a bundle of torchaudio"))
    if _is_folder_of_others(path):
        content = dict(read_state(path))
    elif path.is_dir() or path.suffix == ".safetensors":
        content = read_network_file(path).content()
    else:
        content = read_weights_file(path)
    if content.get("format") == FORMAT:
        return _recognise_ours(NetworkFile.from_content(content, path), chosen)
    read = _unnest(content, path)
    own_layers = read.state
    name_map = name_map_of(own_layers)
    if name_map is not None:
        named = read_named(name_map, own_layers, path, chosen)
        named.left_out |= read.left_out
        return named
    of_antideepfake = is_antideepfake(own_layers)
    _leave_out(read, [name for name in own_layers if name.startswith(UNUSED_NORM)], _UNUSED)
    _leave_out(read, [name for name in own_layers if name.startswith(POSITIONS)], _COMPUTED)
    left_out = (UNUSED_NORM, POSITIONS)
    read.state = {name: each for name, each in own_layers.items() if not name.startswith(left_out)}
    if front_end_prefix(read.state):
        # Files do not state whether training used masks: the user's setting keeps the mask vector.
        masked = bool(chosen.get("front_end.time_mask_proportion"))
        read.state, not_used = rename_published(read.state, masked)
        _leave_out(read, not_used, _PRETRAINING)
    kind = _name_class(read.state, own_layers, path, of_antideepfake)
    read.layout = LAYOUTS[kind]
    assign(read.settings, {"network.network_class": f"asdf.networks.{kind}", **chosen})
    if kind.startswith("SSL_") and ARCHITECTURE not in chosen:
        architecture = find_architecture(path, read.state)
        assign(read.settings, {ARCHITECTURE: architecture})
        read.notes.append(f"{ARCHITECTURE} = {architecture!r}, {SHAPES}")
    read.notes += set_sizes(kind, read.state, read.settings, chosen, path, kind)
    read.own_names = _own_names(read.state, own_layers, read.settings.front_end)
    # Only the original ASDF writes this count, in the file or among its layers; its key of the
    # weights is everybody's.
    entries = content.get(nested_key(content) or "", content)
    if of_antideepfake and kind == KIND:
        _score_as_antideepfake(read, chosen)
    elif _COUNT_OF_ORIGINAL in content or _COUNT_OF_ORIGINAL in entries:
        # The original ASDF scored whole recordings, as the defaults do.
        read.layout = f"{ORIGINAL}; {read.layout}"
    else:
        read.notes += published_length(read.settings, kind, chosen)
    return read


def _own_names(
    state: Mapping[str, Tensor], own_layers: Mapping[str, Tensor], chosen: FrontEnd
) -> dict[str, str]:
    """Return the file's names of layers by ours, including missing ones of its front end."""
    prefix = front_end_prefix(own_layers)
    if not prefix:
        return {}
    architecture = Architecture.from_text(chosen.architecture)
    names = {}
    if not architecture.relative_positions:
        ours = {name: name for name in architecture.shapes()}
        for theirs, name in fairseq_names(ours, architecture).items():
            names[FRONT_END + name] = prefix + theirs
    return {**names, **own_names(state, own_layers)}


def _score_as_antideepfake(read: Recognised, chosen: Mapping[str, Any]) -> None:
    one_class = is_one_class(read.state)
    loss = ONE_CLASS_LOSS if one_class else None
    read.notes += antideepfake_scoring(read.settings, loss, chosen)
    if one_class:
        architecture = Architecture.from_text(read.settings.front_end.architecture)
        read.layout, read.loss = _ONE_CLASS, one_class_entry(architecture.dimension)
        read.state, read.filled = split_one_class(read.state)


def _recognise_ours(file: NetworkFile, chosen: Mapping[str, Any]) -> Recognised:
    settings = file.to_sections()
    assign(settings, chosen)
    path = str(file.path)
    if file.base is not None:
        raise AsdfError(
            f"{path} is a network of ASDF with only its trained part. To write the complete "
            f"network: python -m asdf export {path} --format safetensors OUT"
        )
    if file.loss is not None:
        raise AsdfError(
            f"{path} is a network of ASDF with its training loss, and needs no import. For a file "
            f"without the loss: python -m asdf export {path} --format safetensors OUT"
        )
    for name, value in file.state.items():
        if not isinstance(value, Tensor):
            raise AsdfError(
                f"{path} is damaged: its layer {shorten(name)} is a {type(value).__name__}, not a "
                "tensor."
            )
    check_tensors(file.state, path)
    read = Recognised(OURS, settings, dict(file.state))
    _leave_out(read, file.training_keys(), TRAINING)
    read.calibration, read.evaluation = file.calibration, file.evaluation
    return read


def _leave_out(read: Recognised, names: list[str], reason: str) -> None:
    if names:
        read.left_out[reason] = names


def _unnest(content: Mapping[str, Any], path: Path) -> Recognised:
    """Take the layers out of a file's dictionary, and record the entries that are not layers."""
    key = nested_key(content)
    entries = content[key] if key else content
    other_entries = [str(name) for name in content if key and name != key]
    # The first versions of the original ASDF saved them among the layers.
    numbers = [name for name in ORIGINAL_NUMBERS if name in entries]
    named = {name: value for name, value in entries.items() if name not in numbers}
    plain = [str(name) for name, value in named.items() if not isinstance(value, Tensor)]
    read = Recognised("", Sections(), _unwrapped(state_dict_in(named, path), path))
    averages = [name for name in (AVERAGED,) if name in named and name not in read.state]
    _leave_out(read, [*other_entries, *numbers, *plain, *averages], TRAINING)
    return read


def _name_class(
    state: Mapping[str, Tensor], own_layers: Mapping[str, Tensor], path: Path, of_antideepfake: bool
) -> str:
    """Return the name of our class with these layers.

    Args:
        own_layers: Layers by the file's names.
        of_antideepfake: Whether they had AntiDeepfake's names.

    Raises:
        AsdfError: there is no such class, or the front end's layers are missing.
    """
    kind = class_of_layers(state)
    if kind == KIND and not of_antideepfake:
        # Nothing states how such a network prepares waveforms.
        kind = None
    if kind is None and of_antideepfake:
        raise AsdfError(
            f"{path} holds AntiDeepfake's front end ({ANTIDEEPFAKE_FRONT_END}*) without proj_fc, "
            "the layer that gives the scores. It is damaged, or was saved for its features. To "
            f"train a network on these: front_end.weights={path}."
        )
    if kind is None:
        has_stem = any("feature_extractor.conv_layers.0." in name for name in own_layers)
        if has_stem and all(_FRONT_END_LAYER.match(name) for name in own_layers):
            text = _front_end_alone(str(path), "holds a pretrained self-supervised network")
        else:
            text = f"{path} is not a known detector: {describe_layers(own_layers)}."
            if is_classifier(own_layers):
                text += (
                    " It has the head of an audio classifier of transformers, which can only be "
                    "read from its folder: config.json there names the classes."
                )
            text += f" {_READABLE}."
        raise AsdfError(text)
    has_front_end = any(name.startswith(FRONT_END) for name in state)
    if kind.startswith("SSL_") and not has_front_end:
        raise AsdfError(
            f"{path} holds the back end of {kind} alone; its front end's layers, "
            f"{layout_of(kind).front_end}*, are missing."
        )
    return kind


def _front_end_alone(path: str, what: str) -> str:
    return (
        f"{path} {what}: a front end, not a detector; it gives features, no scores. Train a "
        f"network on it: front_end.weights={path} in a config or on a recipe's command line."
    )


def _is_folder_of_others(path: Path) -> bool:
    """Whether a folder is not one that `export` of ASDF wrote."""
    config = path / CONFIG
    content = read_json(config) if config.is_file() else {}
    is_ours = content.get("format") == FORMAT or content.get("model_type") == MODEL_TYPE
    return path.is_dir() and not is_ours


def _unwrapped(state: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the layers of a detector without the names of parts that programs hold it in.

    Such a part, `model.` of Lightning's, holds everything. Unknown layers keep their names.
    """
    bare = state
    while not _is_known(bare):
        prefix = next(iter(bare), "").partition(".")[0] + "."
        inner = without_prefix(bare, prefix)
        if inner is None:
            return state
        bare = state_dict_in(inner, path)
    return bare


def _is_known(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have the names of a published layout."""
    return bool(front_end_prefix(state) or name_map_of(state) or class_of_layers(state))


def _read_folder(
    path: Path, chosen: Mapping[str, Any], bona_fide: Sequence[str]
) -> Recognised | None:
    """Read an audio classifier of transformers; return None for detectors in other layouts."""
    folder = folder_of(path) if path.is_dir() or path.name in WEIGHTS else None
    if folder is not None and not _is_folder_of_others(folder):
        folder = None
    classifier = None if folder is None else open_classifier(folder)
    # By its configuration, or else by its layers.
    if classifier is not None and (
        classifier.is_named or head_size(read_state(classifier.path), classifier.family) is not None
    ):
        return read_classifier(classifier, chosen, bona_fide)
    if bona_fide:
        raise UsageError(
            f"--bona-fide-class is for audio classifiers of transformers, but {path} is not one: "
            "its layout defines its outputs."
        )
    if folder is None or not path.is_dir():
        return None
    # The layers identify it, whatever its configuration says.
    state = read_state(path)
    if _is_known(_unwrapped(state, path)):
        return None
    known = ", ".join(CLASSIFIERS.values())
    raise AsdfError(
        f"{path} holds {describe_folder(path)}, which ASDF does not recognise as a detector: "
        f"{describe_layers(state)}. Of transformers it reads audio classifiers: {known}. If it is "
        f"an audio encoder, train a network on its features: front_end.weights={path}."
    )
