"""Folders of transformers' audio classifiers, and their configurations.

Invariant: a configuration is data. It is compared with the layers; what neither of them states is a
documented default. A description of a folder is true of it.

Source: transformers, the documentation of the configurations and of the feature extractors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.safetensors_network import CONFIG
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.interchange.hugging_face import PREPROCESSOR
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
        self._check_numbers(names, where)
        return names

    def _check_numbers(self, names: tuple[str, ...], where: str) -> None:
        """Compare label2id with the names: a contradiction would reverse verdicts."""
        numbers = self.config.get("label2id")
        if not isinstance(numbers, dict):
            return
        for name, number in numbers.items():
            is_known = str(number).isdecimal() and int(number) < len(names)
            if is_known and name in names and names[int(number)] != name:
                raise AsdfError(
                    f"{where} says that class {number} is {shorten(names[int(number)])!r}, but "
                    f"label2id says {shorten(str(name))!r}: one of them is wrong. Ask its authors, "
                    "or test it with your own recordings; then correct config.json in a copy of "
                    "the folder."
                )


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
    is_named = bool(names)
    if is_named and names[0] != CLASSIFIERS[family]:
        return None
    path = folder / PREPROCESSOR
    extractor = read_json(path) if path.is_file() else None
    if extractor is not None:
        _check_extractor(extractor, path, family)
    return ClassifierFolder(folder, config, extractor, is_named)


def _check_extractor(extractor: Mapping[str, Any], path: Path, family: str) -> None:
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


def describe_folder(folder: Path) -> str:
    """Return a description of a folder of transformers, based on its configuration."""
    config = read_json(folder / CONFIG)
    named = config.get("architectures")
    class_name = str(named[0]) if isinstance(named, list) and named else ""
    if "model_type" not in config:
        return f"a network whose {CONFIG} states no model type"
    kind = shorten(repr(config["model_type"]))
    if class_name:
        return f"a network of the class {shorten(class_name)} (model type {kind})"
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
