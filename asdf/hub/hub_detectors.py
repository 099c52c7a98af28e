"""Detectors on the hub in transformers' layouts and DF-Arena's: facts from their sources.

Invariant: as in `published_detectors`. Downloads, names and words in a name are not facts: the
training data of a repository are given only if a source states them.

Sources, read in November 2026: the model cards of Speech-Arena-2025's DF_Arena_1B_V_1 and
DF_Arena_500M_V_1, and of their copies by the Speech Anti-Spoofing Arena; the model card of
garystafford/wav2vec2-deepfake-voice-detector; for class names and training data of the others,
programs that use them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedEer:
    """A published equal error rate.

    Attributes:
        percent: Equal error rate, in %.
        remark: Source or method of the measurement, if it is not the detector's `protocol`.
    """

    evaluation_set: str
    percent: float
    remark: str = ""


@dataclass(frozen=True)
class KnownDetector:
    """A published detector with its facts; None for facts that the sources do not state.

    Attributes:
        name: Name of the repository on the hub, or the authors' name.
        on_hub: Whether it is downloaded by its name.
        trained_on, trained_on_short: Training sets in words, and in short for a table.
        overlap: Sets that are training data, on which EERs mean little, in words.
        protocol: Part of a recording that the authors score.
        parameters: Number of parameters, as stated.
        licence: Licence of the weights.
        size_bytes, sha256: Size and SHA-256 of the file with the weights.
        weights: Location of the weights.
        command: Command by which ASDF reads them.
        paper: Number of the paper on arXiv, or the conference.
    """

    name: str
    trained_on: str
    trained_on_short: str
    protocol: str
    weights: str
    command: str
    paper: str
    on_hub: bool = False
    overlap: str | None = None
    eers: tuple[PublishedEer, ...] = ()
    parameters: str | None = None
    licence: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None

    @property
    def short_name(self) -> str:
        """Name without the organisation."""
        return self.name.rpartition("/")[2]

    @property
    def file(self) -> str:
        """Name of the file with the weights, as in the command; '' if it is on the hub."""
        return "" if self.on_hub else self.command.split()[-2]  # python -m asdf import FILE net.pt


_ARENA_SETS = (
    "ASVspoof 2019 LA",
    "ASVspoof 2021 LA",
    "ASVspoof 2021 DF",
    "ASVspoof 5",
    "In-the-Wild",
)
# Name, parameters, EERs on these sets.
_DF_ARENA: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("DF_Arena_1B_V_1", "1148 M", (1.06, 4.81, 1.88, 17.34, 0.91)),
    ("DF_Arena_500M_V_1", "436 M", (1.19, 5.78, 3.50, 13.43, 1.87)),
)
_BY_THE_ARENA = "by the Speech Anti-Spoofing Arena, first 64,600 samples"
DF_ARENA_LICENCE = "DF Arena, non-commercial"
_WHOLE = "whole recordings: no length is stated, and transformers' pipeline scores all"
_NOT_STATED = "not stated by its authors"

# Name, training data, the same in short, licence.
_CLASSIFIERS: tuple[tuple[str, str, str, str | None], ...] = (
    (
        "garystafford/wav2vec2-deepfake-voice-detector",
        "genuine speech, and synthetic speech of ElevenLabs, Amazon Polly, Kokoro, Hume AI, "
        "Speechify and Luvvoice; fine-tuned from another detector. Classes: real, fake",
        "six services",
        "Apache-2.0",
    ),
    (
        "abhishtagatya/wav2vec2-base-960h-itw-deepfake",
        "In-the-Wild. Classes: bona-fide, spoof",
        "In-the-Wild",
        None,
    ),
    ("Gustking/wav2vec2-large-xlsr-deepfake-audio-classification", _NOT_STATED, "", None),
    ("MelodyMachine/Deepfake-audio-detection-V2", _NOT_STATED, "", None),
    ("Hemgg/Deepfake-audio-detection", f"{_NOT_STATED}. Classes: AIVoice, HumanVoice", "", None),
)


def df_arena_detectors() -> list[KnownDetector]:
    """Return DF-Arena's detectors."""
    detectors = []
    for short_name, parameters, percents in _DF_ARENA:
        eers = []
        for evaluation_set, percent in zip(_ARENA_SETS, percents, strict=True):
            eers.append(PublishedEer(evaluation_set, percent, _BY_THE_ARENA))
        name = f"Speech-Arena-2025/{short_name}"
        detector = KnownDetector(
            name=name,
            on_hub=True,
            trained_on=(
                "ASVspoof 2019 and 2024 (ASVspoof 5), Codecfake, LibriSeVoc, DFADD, CtrSVDD, "
                "SpoofCeleb, MLAAD and EnvSDD"
            ),
            trained_on_short="nine sets",
            overlap=(
                "ASVspoof 2019 LA, ASVspoof 5, Codecfake, LibriSeVoc, DFADD, SpoofCeleb and MLAAD "
                "are training data: EERs on these, and on sets made from them, say little about "
                "new recordings"
            ),
            protocol="first 64,600 samples (4.04 s)",
            eers=tuple(eers),
            parameters=parameters,
            licence=DF_ARENA_LICENCE,
            weights=f"https://huggingface.co/{name}",
            command=f'asdf.Detector("hub:{name}")',
            paper="arXiv 2603.06164",
        )
        detectors.append(detector)
    return detectors


def classifier_detectors() -> list[KnownDetector]:
    """Return audio classifiers of transformers that applications use."""
    detectors = []
    for name, trained_on, short, licence in _CLASSIFIERS:
        detector = KnownDetector(
            name=name,
            on_hub=True,
            trained_on=trained_on,
            trained_on_short=short,
            protocol=_WHOLE,
            licence=licence,
            weights=f"https://huggingface.co/{name}",
            command=f'asdf.Detector("hub:{name}")',
            paper="none known",
        )
        detectors.append(detector)
    return detectors
