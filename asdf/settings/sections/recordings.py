"""Sections of the recordings that a network receives: their format and their processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.facts import SAMPLE_RATE
from asdf.settings.fields import proportion, setting
from asdf.settings.mistakes import KnownNames

LOWEST_RATE = 4_000
HIGHEST_RATE = 192_000


@dataclass
class Audio(KnownNames):
    """Format in which recordings are read."""

    sample_rate: int = setting(SAMPLE_RATE, unit="Hz", at_least=LOWEST_RATE, at_most=HIGHEST_RATE)
    """sampling rate of the network: all recordings are resampled to it, and all lengths in samples
    refer to it"""
    channels: int | Literal["mean", "all"] = setting("mean", at_least=0)
    """channels of a recording: their mean; one of them, from 0; or all, for a network that takes
    (batch, channels, samples)"""

    @property
    def is_usual(self) -> bool:
        """Whether recordings are read as 16 kHz and the mean of their channels."""
        return self == USUAL_AUDIO

    def describe(self) -> str:
        """Return 'at 24,000 Hz, channel 1' and the like, for logs and messages."""
        words = {"mean": "the mean of the channels", "all": "all channels"}
        channels = words.get(str(self.channels), f"channel {self.channels}")
        return f"at {self.sample_rate:,} Hz, {channels}"


USUAL_AUDIO = Audio()
"""Default audio of networks: 16 kHz and the mean of the channels."""


@dataclass
class RawBoost(KnownNames):
    """RawBoost augmentation of training examples (Tak et al., ICASSP 2022)."""

    # The names below are those of the authors' code, so that published values can be copied.
    enabled: bool = False
    """augment training examples"""
    applyingRatio: float = proportion(0.8)
    """proportion of the examples that are augmented"""
    algo: int = setting(5, at_least=0, at_most=8)
    """0 none, 1 LnL, 2 ISD, 3 SSI, 4 1+2+3, 5 1+2, 6 1+3, 7 2+3 in series, 8 1 and 2 in parallel"""
    nBands: int = setting(5, at_least=1)
    """LnL: number of notch filters"""
    minF: float = setting(20, unit="Hz", at_least=0)
    """LnL: lowest centre frequency"""
    maxF: float = setting(8000, unit="Hz", above=0)
    """LnL: highest centre frequency"""
    minBW: float = setting(100, unit="Hz", above=0)
    """LnL: narrowest notch"""
    maxBW: float = setting(1000, unit="Hz", above=0)
    """LnL: widest notch"""
    minCoeff: int = setting(10, at_least=1)
    """LnL: lowest number of filter coefficients"""
    maxCoeff: int = setting(100, at_least=1)
    """LnL: highest number of filter coefficients"""
    minG: float = setting(0, unit="dB")
    """LnL: lowest gain of the linear part"""
    maxG: float = setting(0, unit="dB")
    """LnL: highest gain of the linear part"""
    minBiasLinNonLin: float = setting(5, unit="dB")
    """LnL: smallest gap between linear and non-linear gain"""
    maxBiasLinNonLin: float = setting(20, unit="dB")
    """LnL: largest gap between linear and non-linear gain"""
    N_f: int = setting(5, at_least=1)
    """LnL: order of the non-linearity"""
    P: float = setting(10, unit="%", at_least=0, at_most=100)
    """ISD: highest percentage of samples disturbed"""
    g_sd: float = setting(2, above=0)
    """ISD: gain"""
    SNRmin: float = setting(10, unit="dB")
    """SSI: lowest signal-to-noise ratio"""
    SNRmax: float = setting(40, unit="dB")
    """SSI: highest signal-to-noise ratio"""
    on_device: bool = False
    """augment whole batches on the device instead of single clips in the loader's processes"""


AUGMENTATIONS = {
    "speed": "asdf.audio.augmentation.filtering.Speed",
    "noise": "asdf.audio.augmentation.acoustics.Noise",
    "reverberation": "asdf.audio.augmentation.acoustics.Reverberation",
    "codec": "asdf.audio.augmentation.codecs.Coding",
    "silence": "asdf.audio.augmentation.filtering.TrimmedSilence",
    "bandwidth": "asdf.audio.augmentation.filtering.Bandwidth",
    "frequency_mask": "asdf.audio.augmentation.filtering.FrequencyMask",
    "time_mask": "asdf.audio.augmentation.filtering.TimeMask",
}


@dataclass
class Augmentation(KnownNames):
    """Augmentation of training examples, before RawBoost; scored recordings are not changed."""

    chain: tuple[str, ...] = setting((), check="class_path", names=AUGMENTATIONS)
    """augmentations of a training example, in this order; (): none"""
    probability: float = proportion(0.5)
    """proportion of the examples that each part without a probability of its own changes"""
    speed_probability: float = proportion(0.5)
    """proportion of the examples played faster or slower"""
    speed_min: float = setting(0.9, at_least=0.5)
    """lowest speed; 0.9 takes 1/0.9 of the time, and lowers the pitch"""
    speed_max: float = setting(1.1, at_most=2)
    """highest speed; speeds are drawn in steps of 0.01"""
    noise_probability: float = proportion(0.5)
    """proportion of the examples with a noise added"""
    noise_folders: tuple[str, ...] = setting((), check="path")
    """folders with recordings of noise, relative to database_folder, such as MUSAN's noise and
    music"""
    noise_snr_min_db: float = setting(5.0, unit="dB")
    """lowest signal-to-noise ratio"""
    noise_snr_max_db: float = setting(20.0, unit="dB")
    """highest signal-to-noise ratio"""
    reverberation_probability: float = proportion(0.5)
    """proportion of the examples convolved with a room impulse response"""
    reverberation_folders: tuple[str, ...] = setting((), check="path")
    """folders with room impulse responses, relative to database_folder, such as RIRS_NOISES"""
    codec_probability: float = proportion(0.5)
    """proportion of the examples coded and decoded"""
    codecs: tuple[
        Literal["mu-law", "a-law", "gsm", "mp3", "vorbis", "opus", "g722", "aac", "amr-nb"], ...
    ] = setting(("mu-law", "a-law", "gsm", "mp3", "vorbis", "opus"), check="unique")
    """codecs to draw from, together with a bit rate; mu-law, a-law, gsm and amr-nb at 8 kHz"""
    silence_max_s: float = setting(0.1, unit="s", at_least=0)
    """longest silence that is left at each end; how much is drawn from 0 to this"""
    frequency_mask_max_hz: float = setting(1000.0, unit="Hz", above=0, at_most=8000)
    """widest band that is stopped"""
    time_mask_max_s: float = setting(0.2, unit="s", above=0)
    """longest stretch that is silenced"""
    mixup_probability: float = proportion(0.0)
    """proportion of the examples that are mixed with another utterance's, and their losses as well;
    0: none"""


VOCODERS = {
    "griffin_lim": "asdf.audio.vocoding.classical.GriffinLim",
    "source_filter": "asdf.audio.vocoding.classical.SourceFilter",
    "lpc": "asdf.audio.vocoding.classical.LinearPrediction",
    "phase": "asdf.audio.vocoding.classical.PhaseReplacement",
}


@dataclass
class Vocoding(KnownNames):
    """Spoofs made by copying bona fide training utterances through vocoders."""

    vocoders: tuple[str, ...] = setting((), check="class_path", names=VOCODERS)
    """copies of bona fide training utterances are made by these vocoders and trained on as spoofs;
    (): none"""
    copies: float = setting(1.0, above=0)
    """copies of each bona fide training utterance, each by the next of the vocoders; 0.5: one of
    every second utterance"""
    corpus_spoofs: bool = True
    """True: the spoofs of the training sets are trained on as well; False: they are left out, and
    the copies are the only spoofs"""
    phase: Literal["minimum", "random", "either"] = "either"
    """phase: the phases that replace those of the voice; either: one of the two is drawn for each
    example"""


@dataclass
class Lengths(KnownNames):
    """Minibatches of recordings of varying length, instead of clips of one length."""

    minibatch_s: float | None = setting(None, unit="s", above=0)
    """the most seconds of a minibatch of one process, padding included: it holds recordings of
    similar length, padded to the longest; None: clips of network.train_clip_size"""
    min_crop_s: float = setting(10.0, unit="s", above=0)
    """the shortest crop of a recording"""
    max_crop_s: float = setting(13.0, unit="s", above=0)
    """the longest crop; the length of each is drawn anew at each turn"""
    crop: Literal["longer", "all"] = "longer"
    """longer: only recordings above max_crop_s are cropped; all: all above min_crop_s. Shorter ones
    are trained on as a whole"""
    buckets: int = setting(20, at_least=1)
    """groups of equal size, by length, whose recordings share minibatches; 1: any two may, with
    more padding"""
    masks: bool = True
    """True: padding is masked, so that an utterance's outputs are those without padding; False:
    padding is silence to the network"""


@dataclass
class SpeechActivity(KnownNames):
    """Speech activity detection."""

    mode: Literal["off", "endpoint", "on"] = "off"
    """off; endpoint: the silent ends are trimmed; on: all non-speech is dropped"""
    threshold_db: float = setting(30.0, unit="dB", above=0)
    """energy: a frame is speech if its energy is within this range of the loudest frame"""
    hangover_s: float = setting(0.1, unit="s", at_least=0)
    """time that counts as speech after the last frame of speech"""
    detector: Literal["energy", "silero"] = "energy"
    """how speech is detected: by energy, or by the network of Silero VAD (pip install
    silero-vad)"""
    silero_threshold: float = proportion(0.5)
    """silero: a frame is speech from this probability on"""
