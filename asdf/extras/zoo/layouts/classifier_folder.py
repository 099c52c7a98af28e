"""Audio classifiers of transformers, read from their folders as networks of ASDF.

Invariant: a configuration is data, of which nothing is executed. It is compared with the layers;
what neither of them states is a documented default. Every layer of the folder is a layer of the
network, or is irrelevant for scores and named. Encoders of the wav2vec 2.0 family are ASDF's own;
the others are those of transformers, built from the configuration with its own classes.

Source: transformers, the documentation of the configurations and of the feature extractors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.base_weights import describe_layers
from asdf.checkpoint.network_reading import CONFIG
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.class_names import chosen_polarity, read_polarity, unknown_polarity
from asdf.facts import SAMPLE_RATE
from asdf.interchange import hugging_face
from asdf.interchange.hugging_face import PREPROCESSOR
from asdf.interchange.pretrained import architecture_text_of, choose_layers
from asdf.networks.casting import without_numbers
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.transformers_front_end import (
    EncoderOutputFrontEnd,
    TransformersFrontEnd,
)
from asdf.settings.sections import FRAME_SAMPLES, Sections, assign
from asdf.text import shorten

AST = "audio-spectrogram-transformer"
WHISPER = "whisper"
CLASSIFIERS = {
    AST: "ASTForAudioClassification",
    "data2vec-audio": "Data2VecAudioForSequenceClassification",
    "hubert": "HubertForSequenceClassification",
    "sew": "SEWForSequenceClassification",
    "unispeech": "UniSpeechForSequenceClassification",
    "unispeech-sat": "UniSpeechSatForSequenceClassification",
    "wav2vec2": "Wav2Vec2ForSequenceClassification",
    "wav2vec2-bert": "Wav2Vec2BertForSequenceClassification",
    "wav2vec2-conformer": "Wav2Vec2ConformerForSequenceClassification",
    "wavlm": "WavLMForSequenceClassification",
    WHISPER: "WhisperForAudioClassification",
}
"""Model types of transformers with an audio classification head, and their classes."""

OUR_OWN = ("hubert", "unispeech", "unispeech-sat", "wav2vec2", "wavlm")
"""Types whose encoders ASDF has, if their configuration is supported."""

UPSAMPLED = ("sew",)
"""Types whose encoders change the number of frames after their layers."""

WINDOW_SAMPLES = 320
"""Samples per position of Whisper's encoder."""

PROJECTOR = "projector.weight"
_LAST = "classifier.weight"
_LAST_OF_AST = "classifier.dense.weight"
LAYER_WEIGHTS = "layer_weights"
_WHISPER_POSITIONS = 1500


@dataclass(frozen=True)
class ClassifierFolder:
    """The folder of a classifier.

    Attributes:
        config: Content of its config.json.
        extractor: Content of its preprocessor_config.json; None without one.
        is_named: Whether its configuration names a class; otherwise its layers identify it.
    """

    path: Path
    config: Mapping[str, Any]
    extractor: Mapping[str, Any] | None
    is_named: bool = True

    @property
    def family(self) -> str:
        """The model type."""
        return str(self.config["model_type"])

    @property
    def class_name(self) -> str:
        """The class of transformers that loads it."""
        return CLASSIFIERS[self.family]

    @property
    def normalizes(self) -> bool:
        """Whether its extractor scales waveforms to zero mean and unit variance."""
        if self.family in (AST, WHISPER, "wav2vec2-bert"):
            # They take features, which their extractors scale.
            return False
        value = None if self.extractor is None else self.extractor.get("do_normalize")
        # The default of Wav2Vec2FeatureExtractor.
        return value if isinstance(value, bool) else True

    @property
    def padding(self) -> int:
        """The length to which waveforms are padded with silence, in samples; 0: no padding."""
        if self.family != WHISPER:
            return 0
        positions = self.config.get("max_source_positions", _WHISPER_POSITIONS)
        return WINDOW_SAMPLES * int(positions) if isinstance(positions, int) else 0

    @property
    def max_samples(self) -> int | None:
        """The length to which recordings are cut, if the folder states one."""
        if self.padding:
            return self.padding
        length = None if self.extractor is None else self.extractor.get("max_length")
        takes_waveforms = self.family not in (AST, "wav2vec2-bert")
        return length if takes_waveforms and isinstance(length, int) and length > 0 else None

    def class_names(self, classes: int) -> tuple[str, ...]:
        """Return the names of its classes, in the order of the logits.

        Args:
            classes: Number of classes, according to the layers.

        Raises:
            AsdfError: their number differs, or two statements about them contradict each other.
        """
        named = self.config.get("id2label")
        if named is None:
            # transformers omits default names.
            return tuple(f"LABEL_{number}" for number in range(classes))
        where = f"{self.path / CONFIG}: id2label"
        numbers = {str(number) for number in range(classes)}
        if not isinstance(named, dict) or {str(each) for each in named} != numbers:
            count = len(named) if isinstance(named, dict) else 0
            raise AsdfError(
                f"{where} names {count} classes, but the layers have {classes} (classifier), "
                f"counted from 0 to {classes - 1}. The folder is damaged, or mixes files of two "
                "networks."
            )
        names = tuple(str(named[str(number)]) for number in range(classes))
        stated = self.config.get("label2id")
        # A contradiction would reverse verdicts.
        for name, number in stated.items() if isinstance(stated, dict) else ():
            is_known = str(number).isdecimal() and int(number) < len(names)
            if is_known and name in names and names[int(number)] != name:
                raise AsdfError(
                    f"{where} says that class {number} is {shorten(names[int(number)])!r}, but "
                    f"label2id says {shorten(str(name))!r}: one of them is wrong. Ask its authors, "
                    "or test it with your own recordings; then correct config.json in a copy of "
                    "the folder."
                )
        return names


def open_classifier(folder: Path) -> ClassifierFolder | None:
    """Return the folder of a classifier by its configuration; None if it is another class.

    Raises:
        AsdfError: its configuration cannot be read, or is for another sampling rate.
    """
    config = read_json(folder / CONFIG)
    family = config.get("model_type")
    if not isinstance(family, str) or family not in CLASSIFIERS:
        return None
    named = config.get("architectures")
    names = named if isinstance(named, list) else []
    if names and names[0] != CLASSIFIERS[family]:
        return None
    path = folder / PREPROCESSOR
    if not path.is_file():
        return ClassifierFolder(folder, config, None, bool(names))
    extractor = read_json(path)
    rate = extractor.get("sampling_rate", SAMPLE_RATE)
    if rate != SAMPLE_RATE:
        raise AsdfError(
            f"{path} is for audio of {shorten(str(rate))} Hz, and recordings are read at "
            f"{SAMPLE_RATE:,} Hz here: its scores would differ. It cannot be used."
        )
    if family == WHISPER and extractor.get("do_normalize"):
        raise AsdfError(
            f"{path} has do_normalize = true for Whisper, which scales waveforms before it appends "
            "silence. ASDF does not do that, so its scores would differ."
        )
    return ClassifierFolder(folder, config, extractor, bool(names))


def describe_folder(folder: Path) -> str:
    """Return a description of a folder of transformers, based on its configuration."""
    config = read_json(folder / CONFIG)
    named = config.get("architectures")
    if "model_type" not in config:
        return f"a network whose {CONFIG} states no model type"
    kind = shorten(repr(config["model_type"]))
    if isinstance(named, list) and named:
        return f"a network of the class {shorten(str(named[0]))} (model type {kind})"
    return f"a network of the model type {kind}"


def head_layers(family: str) -> tuple[str, ...]:
    """Return the names of the layers that every head of this family has."""
    if family == AST:
        return ("classifier.layernorm.weight", _LAST_OF_AST)
    return (PROJECTOR, _LAST)


def is_classifier(names: Iterable[str]) -> bool:
    """Whether layers are exactly those of an encoder and of a frame classification head.

    Networks for speakers have such a head too, with layers between it and the encoder.
    """
    heads = {name.partition(".")[0] for name in (PROJECTOR, _LAST)}
    parts = {name.partition(".")[0] for name in names}
    encoders = parts - heads - {LAYER_WEIGHTS}
    return heads <= parts and len(encoders) == 1


def head_size(state: Mapping[str, Tensor], family: str) -> int | None:
    """Return the number of classes in the layers; None without a complete head."""
    if not set(head_layers(family)) <= state.keys():
        return None
    last = state[_LAST_OF_AST if family == AST else _LAST]
    return int(last.shape[0]) if last.dim() == 2 else None


NETWORK_CLASS = "asdf.networks.SSL_Classifier"
FRONT_END = "front_end.model."
_BACK_END = "back_end."
_SUM = "front_end.layer_sum.weights"
_MIN = "network.min_evaluation_utterance_length_in_samples"
_MAX = "network.max_evaluation_utterance_length_in_samples"
_BONA_FIDE = "back_end.classifier_bona_fide"
_UNUSED = "of the encoder's pretraining; scores do not depend on them"


@dataclass
class Recognised:
    """A detector that was recognised.

    Attributes:
        layout: Layout of the file.
        state: Layers under our names.
        notes: Sentences for the user about the settings.
        left_out: Names of layers and entries that were left out, by reason.
        own_names: Names of layers in the file, by our names, if they differ.
        filled: Names of layers missing in the file that scores do not depend on; they are zeros.
        loss: Description of the loss of a detector whose loss gives the scores (`attached_parts`).
        calibration, evaluation: Entries in a file of ASDF.
    """

    layout: str
    settings: Sections
    state: dict[str, Tensor]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    own_names: dict[str, str] = field(default_factory=dict)
    filled: list[str] = field(default_factory=list)
    loss: dict[str, Any] | None = None
    calibration: Any = None
    evaluation: Any = None


def read_classifier(
    folder: ClassifierFolder, chosen: Mapping[str, Any], bona_fide: Sequence[str] = ()
) -> Recognised:
    """Read the classifier of a folder.

    Args:
        chosen: Settings by full name, which override those of the folder.
        bona_fide: Names or numbers of the bona fide classes chosen by the user; (): by class names.

    Raises:
        UsageError: there is no such class, or transformers is needed but not installed.
        UnknownPolarityError: the bona fide classes are unknown.
        AsdfError: its files cannot be read, are not a classifier, or contradict each other.
    """
    state = hugging_face.read_state(folder.path)
    classes = _count_classes(folder, state)
    names = folder.class_names(classes)
    stated = bona_fide or [str(number) for number in chosen.get(_BONA_FIDE, ())]
    polarity = chosen_polarity(stated, names) if stated else read_polarity(names)
    if not polarity.bona_fide:
        raise unknown_polarity(folder.path, polarity, len(names))
    values: dict[str, Any] = {
        "network.network_class": NETWORK_CLASS,
        "network.score": "difference",
        "back_end.classifier_classes": names,
        _BONA_FIDE: polarity.bona_fide,
        "back_end.classifier_family": folder.family,
        "back_end.classifier_pooling": "tokens" if folder.family == AST else "mean",
        "back_end.classifier_padding": folder.padding,
        "front_end.normalize_waveforms": folder.normalizes,
    }
    if PROJECTOR in state:
        values["back_end.classifier_projection"] = int(state[PROJECTOR].shape[0])
    if LAYER_WEIGHTS in state:
        values["front_end.layer"] = "weighted"
    settings = Sections()
    assign(settings, {**values, **_encoder_settings(folder, LAYER_WEIGHTS in state)})
    layout = f"{folder.class_name} of transformers, {classes} classes"
    read = Recognised(layout, settings, {})
    listed = [f"class {number} ({names[number]!r})" for number in polarity.bona_fide]
    origin = f": the default of transformers for {folder.family}"
    if folder.extractor is None:
        origin = f": transformers' default, as there is no {PREPROCESSOR}"
    elif "do_normalize" in folder.extractor:
        origin = f", by {PREPROCESSOR}"
    read.notes += [
        f"bona fide: {' and '.join(listed)}, {polarity.reason}",
        f"front_end.normalize_waveforms = {folder.normalizes}{origin}",
        _set_lengths(settings, folder, chosen),
    ]
    assign(settings, {name: value for name, value in chosen.items() if name != _BONA_FIDE})
    _fill(read, state, folder)
    return read


def _count_classes(folder: ClassifierFolder, state: Mapping[str, Tensor]) -> int:
    """Return the number of classes according to the layers of the head.

    Raises:
        AsdfError: there is no complete head, it has one output, or versions of transformers
            disagree on its computation.
    """
    path = folder.path
    classes = head_size(state, folder.family)
    if classes is None:
        needed = head_layers(folder.family)
        missing = [name for name in needed if name not in state] or list(needed)
        raise AsdfError(
            f"{path} is a {folder.class_name} by its configuration, but it has no usable "
            f"{' and '.join(missing)}: {describe_layers(state)}. Its weights are from another "
            "network, or an encoder alone. To train a network on an encoder's features: "
            f"front_end.weights={path}."
        )
    if classes < 2:
        raise AsdfError(
            f"{path} has one output and no classes (classifier.weight), so its meaning is unknown. "
            f"To train a network on its encoder: front_end.weights={path}."
        )
    written_by = str(folder.config.get("transformers_version", ""))
    is_pre_norm = folder.family in OUR_OWN and bool(folder.config.get("do_stable_layer_norm"))
    if LAYER_WEIGHTS in state and is_pre_norm and written_by.partition(".")[0] == "5":
        raise AsdfError(
            f"{path} sums layers ({LAYER_WEIGHTS}) of an encoder that ends with a norm, and was "
            f"saved by transformers {shorten(written_by)}, which sums the last layer before that "
            "norm; ASDF sums it after, as transformers 4 did: its scores would differ."
        )
    return classes


def _set_lengths(settings: Sections, folder: ClassifierFolder, chosen: Mapping[str, Any]) -> str:
    """Set the scored length of recordings; return the note about it."""
    most = settings.network.max_evaluation_utterance_length_in_samples
    stated = folder.max_samples
    # A file may state any number; memory is limited by our own maximum.
    longest = min(stated or most, most)
    lengths = {_MIN: FRAME_SAMPLES, _MAX: max(longest, FRAME_SAMPLES)}
    lengths = {name: value for name, value in lengths.items() if name not in chosen}
    assign(settings, lengths)
    seconds = settings.network.max_evaluation_utterance_length_in_samples / 16000
    if folder.padding:
        return f"scored: up to {seconds:g} s, with silence behind shorter recordings, as Whisper's"
    if stated is not None:
        return f"scored: whole, up to {seconds:g} s, by max_length of {PREPROCESSOR}"
    if folder.family == AST:
        return "scored: whole recordings, whose frames the extractor cuts or pads"
    return (
        f"scored: whole, up to {seconds:g} s, as transformers' pipeline does: the folder states no "
        "length. If its model card does, set it: "
        f"{_MAX}=SAMPLES"
    )


def _encoder_settings(folder: ClassifierFolder, sums_layers: bool) -> dict[str, Any]:
    """Return the settings of the encoder: ASDF's own if supported, else transformers'."""
    if folder.family in OUR_OWN:
        # Of these types, only WavLM differs from wav2vec 2.0 in its layers.
        kind = "wavlm" if folder.family == "wavlm" else "wav2vec2"
        config = {**folder.config, "model_type": kind}
        # Not if a property is not supported by ours, such as another activation.
        with suppress(AsdfError):
            architecture = hugging_face.architecture_of(config, folder.path)
            return {"front_end.architecture": architecture.to_text()}
    # A sum of layers uses their outputs, before the number of frames increases again.
    is_upsampled = folder.family in UPSAMPLED and not sums_layers
    return {
        "front_end.front_end_class": "encoder_output" if is_upsampled else "transformers",
        "front_end.architecture": architecture_text_of(folder.path),
    }


def _fill(read: Recognised, state: Mapping[str, Tensor], folder: ClassifierFolder) -> None:
    """Rename the layers to our names, and record the folder's names of all, also missing ones."""
    front_end = read.settings.front_end
    heads = ("projector", "classifier", LAYER_WEIGHTS)
    first = [name.partition(".")[0] for name in state if name.partition(".")[0] not in heads]
    # Of the encoder's layers, such as 'wav2vec2.'.
    prefix = f"{first[0]}." if first else ""
    encoder = {}
    for name, tensor in state.items():
        if name == LAYER_WEIGHTS:
            read.state[_SUM] = tensor
        elif name.startswith(("projector.", "classifier.")):
            read.state[_BACK_END + name] = tensor
        elif prefix and name.startswith(prefix):
            encoder[name.removeprefix(prefix)] = tensor
        else:
            # The check of layers reports it as unknown.
            read.state[name] = tensor
    if front_end.front_end_class is None:
        layers, left_out = hugging_face.torchaudio_names(encoder)
        for name in Architecture.from_text(front_end.architecture).shapes():
            read.own_names[FRONT_END + name] = prefix + hugging_face.hugging_face_name(name)
    else:
        is_output = front_end.front_end_class == "encoder_output"
        kind = EncoderOutputFrontEnd if is_output else TransformersFrontEnd
        with without_numbers():
            outline = kind(front_end)
        chosen = choose_layers(encoder, outline, str(folder.path))
        layers, left_out = chosen.used, chosen.left_out
    read.state |= {FRONT_END + name: tensor for name, tensor in layers.items()}
    if left_out:
        read.left_out[_UNUSED] = [prefix + name for name in left_out]
    for name in ("projector.weight", "projector.bias", "classifier.weight", "classifier.bias"):
        read.own_names[_BACK_END + name] = name
    read.own_names |= own_names(read.state, state)


def own_names(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the file's names of layers by ours, for tensors that were taken unchanged."""
    # By identity, since equal values may be of several layers.
    names = {id(tensor): name for name, tensor in theirs.items()}
    return {name: names[id(tensor)] for name, tensor in ours.items() if id(tensor) in names}
