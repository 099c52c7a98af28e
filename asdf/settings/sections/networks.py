"""Sections of the networks: front end, back end, their tuning, and frame scores."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Literal, TypeVar

from asdf.settings.class_files import declared_settings, short_names
from asdf.settings.fields import MAX_FFT, MAX_FILTERS, proportion, setting
from asdf.settings.mistakes import KnownNames

Kind = TypeVar("Kind")

FRONT_ENDS = short_names("FrontEnd")
BACK_ENDS = short_names("BackEnd")


@dataclass
class FrontEnd(KnownNames):
    """Front end of network classes that have one."""

    front_end_class: str | None = setting(None, check="class_path", names=FRONT_ENDS)
    """what computes the features, in any network with a front end; None: what the network class
    has, which for the project's is wav2vec2"""
    architecture: str = setting("wav2vec2_xlsr_300m", check="not_empty")
    """tiny, small, wav2vec2_base, wav2vec2_large, wav2vec2_large_lv60k, wav2vec2_xlsr_300m, _1b,
    _2b, hubert_base, _large, _xlarge, wavlm_base, _large; most weight files state it themselves;
    encoders of another kind have their own; of transformers: the text of a config.json, or a
    repository of the hub that has one"""
    weights: str | None = setting(None, check="path")
    """a checkpoint file; a folder from Hugging Face; 'ORG/NAME' or 'hub:ORG/NAME@REVISION', a
    repository of the hub; 'torchaudio:NAME', a bundle of torchaudio.pipelines; 'random' to train
    from scratch; None: random for 'tiny', 'small' and sizes of your own, else refused"""
    layer: int | Literal["last", "weighted"] = setting("last", at_least=0)
    """features: 'last', after the final norm; N, the hidden state after encoder layer N (0: before
    the first); 'weighted', a learned sum of all; back ends that take all layers get those up to
    N"""
    frozen: bool = False
    """True: its weights are not trained, and it runs without dropout"""
    unfreeze_after_epochs: int | None = setting(None, unit="epochs", at_least=1)
    """frozen in the first N epochs, trained from then on; None: no change"""
    trained_parts: tuple[str, ...] | None = setting(None, check="trained_parts")
    """what is trained: parts of it ('convolutions', 'projection', 'positions', 'layers', 'norms',
    'biases', 'masks'), some of its layers ('layers:1-12', 'layers:13-', counted as in
    front_end.layer), or patterns of parameter names ('*.attention.*'); None: all of it, or with
    lora only the updates"""
    cache_features: bool = False
    """frozen front end: compute its features of the training clips once and save them, as float16,
    below output_folder; needs network.clip_position = 'start' and no augmentation"""
    cache_precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """precision in which cached features are computed; tf32, bf16: several times faster on GPUs
    from A100 on, with about 3 and 2 digits; features of each precision are cached apart"""
    learning_rate: float | None = setting(None, above=0)
    """learning rate of the front end; None: initial_learning_rate"""
    layer_decay: float = setting(1.0, above=0, at_most=1)
    """each encoder layer's learning rate is this many times that of the layer above it; the
    convolutions have the lowest; 1: the same for all"""
    gradient_checkpointing: bool = False
    """recompute the convolutions and the encoder's layers in the backward pass: less than half the
    memory, about a third more time if the GPU is the limit, more if the host is"""
    dropout: float = proportion(0.0)
    """dropout in the encoder, in training"""
    layer_drop: float = proportion(0.0)
    """probability that an encoder layer is left out of a minibatch, in training"""
    time_mask_proportion: float = proportion(0.0)
    """proportion of the frames that masks cover in training, counted before overlaps; 0: none"""
    time_mask_length: int = setting(10, unit="frames", at_least=1)
    """length of a time mask"""
    channel_mask_proportion: float = proportion(0.0)
    """proportion of the feature values that masks cover in training, counted before overlaps; 0:
    none"""
    channel_mask_length: int = setting(64, unit="values", at_least=1)
    """width of a channel mask"""
    normalize_waveforms: bool = False
    """scale every waveform to zero mean and unit variance, as some pretrained networks expect"""
    repeat_last_frame: bool = False
    """repeat the last frame until there is one for every hop that the recording begins, as the
    package s3prl does"""


@dataclass
class Spectrum(KnownNames):
    """Spectral front ends (spectrogram, filter_bank, log_mel, lfcc, mfcc); frames of raw.

    Others with such settings take them from here as well.
    """

    window: int | None = setting(None, unit="samples", at_least=1, at_most=MAX_FFT)
    """length of a frame; None: 20 ms (at 16 kHz 320), of log_mel 25 ms (400), of raw 1"""
    hop: int | None = setting(None, unit="samples", at_least=1)
    """from the start of a frame to the next; None: 10 ms (at 16 kHz 160), of raw the length of a
    frame"""
    centred: bool = False
    """of spectral front ends: frame N is about sample N * hop, with zeros before and behind the
    recording, as torch.stft and the LFCC-LCNN baseline have it; False: frames are whole"""
    n_fft: int | None = setting(None, unit="samples", at_least=2, at_most=MAX_FFT)
    """length of the Fourier transform; None: 512, of lfcc 1024, at other rates than 16 kHz the next
    power of 2"""
    window_shape: Literal["hamming", "hann"] = "hamming"
    """taper of a frame"""
    pre_emphasis: float = proportion(0.97)
    """part of the sample before that is subtracted from each sample; 0: none"""
    filters: int | None = setting(None, at_least=1, at_most=MAX_FILTERS)
    """triangular filters; None: 60 of filter_bank, 80 of log_mel, 20 of lfcc and mfcc"""
    low_hz: float = setting(0.0, unit="Hz", at_least=0)
    """where the lowest filter begins"""
    high_hz: float | None = setting(None, unit="Hz", above=0)
    """where the highest filter ends; None: half of audio.sample_rate, of lfcc 4000"""
    coefficients: int | None = setting(None, at_least=1, at_most=MAX_FILTERS)
    """lfcc, mfcc: cepstral coefficients; None: as many as filters"""
    energy: bool = True
    """lfcc, mfcc: the logarithm of the energy is the first coefficient"""
    deltas: int | None = setting(None, at_least=0, at_most=2)
    """differences over time: 1, deltas; 2, also deltas of deltas; None: 2 of lfcc and mfcc, 0 of
    the others"""
    log_floor: float = setting(2**-23, above=0)
    """added to powers before their decimal logarithm is taken"""
    normalization: Literal["none", "mean", "mean_variance"] = "none"
    """over each utterance: mean, features have a mean of 0; mean_variance, and a variance of 1"""


def _with_sizes(kind: type[Kind]) -> type[Kind]:
    """Return the section with the sizes that classes of networks declare, behind its own."""
    sizes = [own for own in declared_settings() if own.section_name == "back_end"]
    # The fields of the last base come first.
    made = make_dataclass(kind.__name__, (), bases=(*reversed(sizes), kind))
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__
    return made


@_with_sizes
@dataclass
class BackEnd(KnownNames):
    """Back end and its sizes, and RawNet2's; AASIST has its published sizes."""

    back_end_class: str | None = setting(None, check="class_path", names=BACK_ENDS)
    """the back end of asdf.networks.ComposedDetector; other network classes have their own"""


@dataclass
class Localisation(KnownNames):
    """Frame scores in addition to the utterance score, for partially spoofed speech."""

    enabled: bool = False
    """True: the network has a frame-level head, trained by the labels of the frames (column
    spoofed_s); its back end has to keep time"""
    resolution: int | None = setting(None, unit="samples", at_least=1)
    """length of a frame, a multiple of the back end's frames, of which means are taken; None: the
    back end's frames"""
    weight: float = setting(1.0, above=0)
    """factor of the frames' loss next to that of the utterance"""
    class_weights: tuple[float, float] = setting((1.0, 1.0), above=0)
    """weights of (spoofed, bona fide) frames in their loss"""


@dataclass
class Lora(KnownNames):
    """Low-rank updates (LoRA) of the front end's linear maps, trained in their place."""

    rank: int = setting(0, at_least=0)
    """rank of the updates (Hu et al., ICLR 2022); 0: none"""
    alpha: float = setting(16.0, above=0)
    """updates are multiplied by alpha / rank"""
    targets: tuple[str, ...] = setting(("attention", "feed_forward"), check="lora_targets")
    """which linear maps: 'attention' (queries, keys, values, outputs) and 'feed_forward' of all
    computed encoder layers, or patterns of names of modules ('*.q_proj')"""
    dropout: float = proportion(0.0)
    """dropout of the input of the updates, in training"""
