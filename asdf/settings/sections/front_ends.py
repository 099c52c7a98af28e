"""Sections of the front ends: the choice of one, its sizes, and its trained parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.ports import provided
from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import (
    MAX_CLIP_SAMPLES,
    MAX_FFT,
    MAX_FILTERS,
    MAX_LAYER_WIDTH,
    proportion,
    setting,
)

# Short names of front ends that `front_end.front_end_class` takes.
FRONT_ENDS = {
    "wav2vec2": "asdf.networks.Wav2Vec2FrontEnd",
    "raw": "asdf.networks.RawFrontEnd",
    "spectrogram": "asdf.networks.SpectrogramFrontEnd",
    "filter_bank": "asdf.networks.FilterBankFrontEnd",
    "log_mel": "asdf.networks.LogMelFrontEnd",
    "lfcc": "asdf.networks.LFCCFrontEnd",
    "mfcc": "asdf.networks.MFCCFrontEnd",
    "transformers": "asdf.networks.TransformersFrontEnd",
    "encoder_output": "asdf.networks.EncoderOutputFrontEnd",
    **provided("FRONT_ENDS"),
}


@dataclass
class FrontEnd(KnownNames):
    """Front end of network classes that have one."""

    front_end_class: str | None = setting(
        None,
        "what computes the features, in any network with a front end; None: what the network class "
        "has, which for the project's is wav2vec2",
        check="class_path",
        names=FRONT_ENDS,
    )
    architecture: str = setting(
        "wav2vec2_xlsr_300m",
        "tiny, small, wav2vec2_base, wav2vec2_large, wav2vec2_large_lv60k, wav2vec2_xlsr_300m, "
        "_1b, _2b, hubert_base, _large, _xlarge, wavlm_base, _large; most weight files state it "
        "themselves; encoders of another kind have their own; of transformers: the text of a "
        "config.json, or a repository of the hub that has one",
        check="not_empty",
    )
    weights: str | None = setting(
        None,
        "a checkpoint file; a folder from Hugging Face; 'ORG/NAME' or 'hub:ORG/NAME@REVISION', a "
        "repository of the hub; 'torchaudio:NAME', a bundle of torchaudio.pipelines; 'random' to "
        "train from scratch; None: random for 'tiny', 'small' and sizes of your own, else refused",
        check="path",
    )
    layer: int | Literal["last", "weighted"] = setting(
        "last",
        "features: 'last', after the final norm; N, the hidden state after encoder layer N (0: "
        "before the first); 'weighted', a learned sum of all; back ends that take all layers get "
        "those up to N",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    frozen: bool = setting(False, "True: its weights are not trained, and it runs without dropout")
    unfreeze_after_epochs: int | None = setting(
        None,
        "frozen in the first N epochs, trained from then on; None: no change",
        unit="epochs",
        at_least=1,
    )
    trained_parts: tuple[str, ...] | None = setting(
        None,
        "what is trained: parts of it ('convolutions', 'projection', 'positions', 'layers', "
        "'norms', 'biases', 'masks'), some of its layers ('layers:1-12', 'layers:13-', counted as "
        "in front_end.layer), or patterns of parameter names ('*.attention.*'); None: all of it, "
        "or with lora only the updates",
        check="trained_parts",
    )
    cache_features: bool = setting(
        False,
        "frozen front end: compute its features of the training clips once and save them, as "
        "float16, below output_folder; needs network.clip_position = 'start' and no augmentation",
    )
    cache_precision: Literal["fp32", "tf32", "bf16"] = setting(
        "fp32",
        "precision in which cached features are computed; tf32, bf16: several times faster on GPUs "
        "from A100 on, with about 3 and 2 digits; features of each precision are cached apart",
    )
    learning_rate: float | None = setting(
        None, "learning rate of the front end; None: initial_learning_rate", above=0
    )
    layer_decay: float = setting(
        1.0,
        "each encoder layer's learning rate is this many times that of the layer above it; the "
        "convolutions have the lowest; 1: the same for all",
        above=0,
        at_most=1,
    )
    gradient_checkpointing: bool = setting(
        False,
        "recompute the convolutions and the encoder's layers in the backward pass: less than half "
        "the memory, about a third more time if the GPU is the limit, more if the host is",
    )
    dropout: float = proportion(0.0, "dropout in the encoder, in training")
    layer_drop: float = proportion(
        0.0, "probability that an encoder layer is left out of a minibatch, in training"
    )
    time_mask_proportion: float = proportion(
        0.0,
        "proportion of the frames that masks cover in training, counted before overlaps; 0: none",
    )
    time_mask_length: int = setting(10, "length of a time mask", unit="frames", at_least=1)
    channel_mask_proportion: float = proportion(
        0.0,
        "proportion of the feature values that masks cover in training, counted before overlaps; "
        "0: none",
    )
    channel_mask_length: int = setting(64, "width of a channel mask", unit="values", at_least=1)
    normalize_waveforms: bool = setting(
        False,
        "scale every waveform to zero mean and unit variance, as some pretrained networks expect",
    )
    repeat_last_frame: bool = setting(
        False,
        "repeat the last frame until there is one for every hop that the recording begins, as the "
        "package s3prl does",
    )


@dataclass
class Spectrum(KnownNames):
    """Spectral front ends (spectrogram, filter_bank, log_mel, lfcc, mfcc); frames of raw.

    Others with such settings take them from here as well.
    """

    window: int | None = setting(
        None,
        "length of a frame; None: 20 ms (at 16 kHz 320), of log_mel 25 ms (400), of raw 1",
        unit="samples",
        at_least=1,
        at_most=MAX_FFT,
    )
    hop: int | None = setting(
        None,
        "from the start of a frame to the next; None: 10 ms (at 16 kHz 160), of raw the length of "
        "a frame",
        unit="samples",
        at_least=1,
        at_most=MAX_CLIP_SAMPLES,
    )
    centred: bool = setting(
        False,
        "of spectral front ends: frame N is about sample N * hop, with zeros before and behind the "
        "recording, as torch.stft and the LFCC-LCNN baseline have it; False: frames are whole",
    )
    n_fft: int | None = setting(
        None,
        "length of the Fourier transform; None: 512, of lfcc 1024, at other rates than 16 kHz the "
        "next power of 2",
        unit="samples",
        at_least=2,
        at_most=MAX_FFT,
    )
    window_shape: Literal["hamming", "hann"] = setting("hamming", "taper of a frame")
    pre_emphasis: float = proportion(
        0.97, "part of the sample before that is subtracted from each sample; 0: none"
    )
    filters: int | None = setting(
        None,
        "triangular filters; None: 60 of filter_bank, 80 of log_mel, 20 of lfcc and mfcc",
        at_least=1,
        at_most=MAX_FILTERS,
    )
    low_hz: float = setting(0.0, "where the lowest filter begins", unit="Hz", at_least=0)
    high_hz: float | None = setting(
        None,
        "where the highest filter ends; None: half of audio.sample_rate, of lfcc 4000",
        unit="Hz",
        above=0,
    )
    coefficients: int | None = setting(
        None,
        "lfcc, mfcc: cepstral coefficients; None: as many as filters",
        at_least=1,
        at_most=MAX_FILTERS,
    )
    energy: bool = setting(True, "lfcc, mfcc: the logarithm of the energy is the first coefficient")
    deltas: int | None = setting(
        None,
        "differences over time: 1, deltas; 2, also deltas of deltas; None: 2 of lfcc and "
        "mfcc, 0 of the others",
        at_least=0,
        at_most=2,
    )
    log_floor: float = setting(
        2**-23, "added to powers before their decimal logarithm is taken", above=0
    )
    normalization: Literal["none", "mean", "mean_variance"] = setting(
        "none",
        "over each utterance: mean, features have a mean of 0; mean_variance, and a variance of 1",
    )


@dataclass
class Lora(KnownNames):
    """Low-rank updates (LoRA) of the front end's linear maps, trained in their place."""

    rank: int = setting(
        0,
        "rank of the updates (Hu et al., ICLR 2022); 0: none",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    alpha: float = setting(16.0, "updates are multiplied by alpha / rank", above=0)
    targets: tuple[str, ...] = setting(
        ("attention", "feed_forward"),
        "which linear maps: 'attention' (queries, keys, values, outputs) and 'feed_forward' of all "
        "computed encoder layers, or patterns of names of modules ('*.q_proj')",
        check="lora_targets",
    )
    dropout: float = proportion(0.0, "dropout of the input of the updates, in training")
