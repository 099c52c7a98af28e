"""Settings of the extra: sections, and sizes of back ends in the core's section."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import FRAME_SAMPLES, MAX_CLIP_SAMPLES, count, setting, width


@dataclass
class ConstantQ(KnownNames):
    """The constant-Q front ends, cqt and cqcc (Todisco et al., 2017)."""

    bins_per_octave: int | None = setting(
        None, "frequencies per octave; None: 48 of cqt, 96 of cqcc", at_least=1
    )
    low_hz: float = setting(
        15.625, "the lowest frequency; 9 octaves below 8000", unit="Hz", at_least=1
    )
    high_hz: float = setting(8000.0, "frequencies are below this one", unit="Hz", above=0)
    offset_hz: float = setting(
        228.7,
        "a window has as many samples as Q periods of its frequency and this together, which "
        "shortens those of low ones, as in the authors' code; 0: a constant Q",
        unit="Hz",
        at_least=0,
    )
    samples_per_octave: int = setting(
        16,
        "cqcc: uniform frequencies in the lowest octave, to which logarithms are resampled",
        at_least=1,
    )
    log_floor: float = setting(
        2**-52, "added to powers before their natural logarithm is taken", above=0
    )


@dataclass
class Sinc(KnownNames):
    """Front end of band-pass filters with learnt edges (after SincNet, SLT 2018)."""

    filters: int = setting(80, "band-passes", at_least=1)
    taps: int = setting(251, "length of a filter; made odd", unit="samples", at_least=3)
    low_hz: float = setting(
        30.0, "where the lowest filter begins at the start", unit="Hz", at_least=0
    )


@dataclass
class Moments(KnownNames):
    """Front end of statistics of band energies over time."""

    parts: tuple[Literal["pulses", "sounds"], ...] = setting(
        ("pulses", "sounds"),
        "which statistics: of 5 ms windows, between which glottal pulses show; of 25 ms windows, "
        "between which sounds change",
        check="not_empty",
    )


@dataclass
class OwnSections(KnownNames):
    """Sections beside the core's."""

    cqt: ConstantQ = field(default_factory=ConstantQ)
    sinc: Sinc = field(default_factory=Sinc)
    moments: Moments = field(default_factory=Moments)


@dataclass
class OwnSizes(KnownNames):
    """Sizes of back ends, in the section `back_end`."""

    rawgat_fusion: Literal["mul", "add", "cat"] = setting(
        "mul",
        "RawGAT_ST: how the graphs of frequencies and of times are joined: by their product, by "
        "their sum, or side by side",
    )
    mesonet_pooled: int = width(
        1024, "SSL_MesoNet: values that the output of its convolutions is averaged to"
    )
    classifier_classes: tuple[str, ...] = setting(
        ("spoof", "bona fide"),
        "SSL_Classifier: names of its classes, as in id2label of a config.json of transformers",
        check="not_empty",
    )
    classifier_bona_fide: tuple[int, ...] = setting(
        (1,),
        "SSL_Classifier: numbers of the bona fide classes, counted from 0; all others are spoof",
        check="unique",
        at_least=0,
    )
    classifier_projection: int = width(
        256, "SSL_Classifier, SSL_SUPERB: values that frames are projected to before their mean"
    )
    classifier_pooling: Literal["mean", "tokens"] = setting(
        "mean",
        "SSL_Classifier: what is classified: 'mean', of the projected frames; 'tokens', of the two "
        "tokens before the patches of an Audio Spectrogram Transformer",
    )
    classifier_padding: int = setting(
        0,
        "SSL_Classifier: waveforms are padded with silence to this length, and longer ones are "
        "cut, as for Whisper; 0: neither",
        unit="samples",
        at_least=0,
        at_most=MAX_CLIP_SAMPLES,
    )
    classifier_family: str = setting(
        "wav2vec2",
        "SSL_Classifier: model type that `export --format transformers_classifier` writes",
        check="not_empty",
    )
    mamba_dimension: int = width(144, "SSL_Mamba: size of the frames and of the embedding")
    mamba_blocks: int = setting(6, "SSL_Mamba: number of blocks of each of two columns", at_least=1)
    mamba_states: int = count(16, "SSL_Mamba: states of each channel of a block")
    deepfense_layers: tuple[int, ...] = setting(
        (128,),
        "SSL_DeepFenseMLP: values of a frame after each of its layers",
        check="not_empty",
        at_least=1,
    )
    deepfense_norm: Literal["layer", "batch", "none"] = setting(
        "layer", "SSL_DeepFenseMLP: what normalises frames after each layer"
    )
    deepfense_activation: Literal["relu", "selu", "tanh", "sigmoid"] = setting(
        "relu", "SSL_DeepFenseMLP: activation of its layers"
    )
    spectra_samples: int = setting(
        64600,
        "SSL_SpectraAASIST, SSL_SpectraAASIST3, SSL_SpectraECAPA: length that shorter recordings "
        "are repeated to",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_CLIP_SAMPLES,
    )


def sections_of(settings: object) -> OwnSections:
    """Return the sections, which have those of this extra."""
    return cast(OwnSections, settings)


def sizes_of(back_end: object) -> OwnSizes:
    """Return the section `back_end`, which has the sizes of this extra."""
    return cast(OwnSizes, back_end)
