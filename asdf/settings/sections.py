"""The settings themselves: one dataclass per section, one line of meaning per setting.

Invariant: only this file knows a setting's name, type, default, unit and range. The checks
(`checks.py`), `--explain`, docs/settings.md and the saved snapshots are all derived from it.
All lengths are samples at 16 kHz unless the name carries a unit (`_s`, `_hz`, `_db`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from asdf.settings.mistakes import UnknownName, nearest

Declared = TypeVar("Declared")

# 25 ms: what a frame of wav2vec 2.0 sees. Its convolutions give nothing for fewer samples.
FRAME_SAMPLES = 400

# The highest values accepted for what takes memory, processes or time as it grows. They are far
# beyond any use: what they refuse is a slip of the pen, before it costs a terabyte of memory or
# starts a million processes.
MAX_PROCESSES = 1024
MAX_UTTERANCES = 10**6
MAX_EPOCHS = 10**9
MAX_STEPS = 10**12
MAX_STAGES = 10**6
MAX_CLIP_SAMPLES = 3600 * 16000
MAX_UTTERANCE_SAMPLES = 10**12
MAX_SECONDS = 10**9
MAX_LAYER_WIDTH = 10**5
MAX_BLOCKS = 1000
MAX_HZ = 10**6
MAX_FFT = 2**14
MAX_FILTERS = 1024
# An average that moves less than this per step would never leave its start.
MAX_DECAY = 1 - 1e-7
MAX_DB = 1000

# Short names of classes and functions that settings take, and their paths.
OPTIMIZERS = {
    "sgd": "torch.optim.SGD",
    "adam": "torch.optim.Adam",
    "adamw": "torch.optim.AdamW",
}
SCHEDULES = {
    "plateau": "asdf.training.schedules.plateau",
    "cosine": "asdf.training.schedules.cosine",
    "constant": "asdf.training.schedules.constant",
    "linear": "asdf.training.schedules.linear",
    "step": "asdf.training.schedules.step",
    "cosine_restarts": "asdf.training.schedules.cosine_restarts",
}


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    check: str = "",
    names: Mapping[str, str] | None = None,
) -> Any:
    """Return a dataclass field with its documentation and its checks.

    Args:
        at_least, above, at_most: bounds of a number, or of every number of a tuple.
        check: a further check of `checks.py`: 'class_path' (one or several), 'unique' (no value
            twice), 'path' (one or several; environment variables are expanded), 'not_empty'.
        names: of a class path: short names of the project's classes, and their class paths.
    """
    metadata = {
        "meaning": meaning,
        "unit": unit,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "check": check,
        "names": names or {},
    }
    return field(default=default, metadata=metadata)


class KnownNames:
    """Rejects assignment to unknown settings, so that a typo in the code of a recipe raises."""

    # Hidden from type checkers, which find unknown names by themselves only without it.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            names = self.__dataclass_fields__
            if name not in names:
                raise UnknownName(
                    f"{type(self).__name__} has no setting '{name}'{nearest(name, names)}"
                )
            super().__setattr__(name, value)


@dataclass
class Paths(KnownNames):
    """Where things are read and written."""

    output_folder: str | None = setting(
        None, "all outputs of the recipe are written below it", check="path"
    )
    database_folder: str | None = setting(None, "the folder that holds the corpora", check="path")
    system_folder: str = setting(
        "system1",
        "folder of one system, relative to output_folder: networks, scores, results",
        check="path",
    )
    sad_folder: str = setting(
        "sad", "folder of measured utterance lengths, relative to output_folder", check="path"
    )


@dataclass
class Computing(KnownNames):
    """What the run computes on."""

    use_gpu: bool | Literal["required"] = setting(
        True,
        "True: a GPU if there is one; 'required': the run ends if there is none; False: the CPU, "
        "even if there is a GPU",
    )
    gpu_ids: tuple[int, ...] | None = setting(
        None,
        "which GPUs: the process of local rank i uses gpu_ids[i]; None: the first ones",
        at_least=0,
        check="unique",
        at_most=MAX_PROCESSES - 1,
    )
    processes: int = setting(
        1,
        "processes that run.py starts when it was started as a single one",
        at_least=1,
        at_most=MAX_PROCESSES,
    )
    backend: Literal["auto", "nccl", "gloo", "mpi"] = setting(
        "auto", "how processes communicate; auto: nccl on GPUs, gloo on the CPU"
    )
    timeout_s: float = setting(
        1800.0,
        "a process that waits longer than this for another ends the run",
        unit="s",
        above=0,
        at_most=MAX_SECONDS,
    )
    sync_batch_norm: bool = setting(
        True, "in training, batch norm over the minibatches of all processes together"
    )
    threads: int | None = setting(
        None,
        "CPU threads per process; None: 1 on a GPU, else the cores divided among this node's "
        "processes",
        at_least=1,
        at_most=MAX_PROCESSES,
    )
    network_dataloader_workers: int = setting(
        10,
        "loader processes per process; at most as many as it has cores, two fewer on a GPU; 0: "
        "none",
        at_least=0,
        at_most=MAX_PROCESSES,
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto",
        "precision of training; auto: bf16 if the GPU computes in it, fp16 on compute capability "
        "7.x, else fp32; for scoring see scoring_precision",
    )
    tf32: bool = setting(False, "allow TF32 products in training on a GPU (faster, about 3 digits)")
    scoring_precision: Literal["fp32", "tf32", "bf16"] = setting(
        "fp32",
        "precision of validation and of stage 2; tf32, bf16: several times faster on GPUs from "
        "A100 on, with scores of about 3 and 2 digits; reports name it; `asdf.Detector` has its "
        "own `precision`",
    )
    compile: bool = setting(
        False,
        "compile the network for training: faster steps after a first one of minutes; scoring is "
        "not compiled",
    )
    deterministic: bool = setting(
        False,
        "only deterministic algorithms: on a GPU, too, a resumed run is bit-identical to an "
        "uninterrupted one",
    )
    shard_network: bool = setting(
        False,
        "divide weights, gradients and moments over the processes, which gather one layer at a "
        "time: for networks that one GPU cannot hold",
    )
    cuda_graphs: bool = setting(
        False,
        "one process with a GPU: capture the passes over a minibatch and replay them, so that a "
        "step is a few launches instead of thousands; not with masks or layer_drop; takes "
        "additional memory; ignored on the CPU",
    )
    profile_steps: tuple[int, int] | None = setting(
        None,
        "optimiser steps (first, last) whose profile is written to profile/ in the system folder",
        at_least=1,
        at_most=MAX_STEPS,
    )


VALIDATION_METRICS = {
    "eer": "asdf.metrics.validation.EER",
    "min_dcf": "asdf.metrics.validation.MinDCF",
    "act_dcf": "asdf.metrics.validation.ActDCF",
    "cllr": "asdf.metrics.validation.Cllr",
    "min_cllr": "asdf.metrics.validation.MinCllr",
    "auc": "asdf.metrics.validation.AUC",
}
LOSSES = {
    "cross_entropy": "asdf.training.losses.CrossEntropy",
    "focal": "asdf.training.losses.Focal",
    "oc_softmax": "asdf.training.losses.OCSoftmax",
    "am_softmax": "asdf.training.losses.AMSoftmax",
    "aam_softmax": "asdf.training.losses.AAMSoftmax",
    "p2sgrad": "asdf.training.losses.P2SGrad",
    "supervised_contrastive": "asdf.training.losses.SupervisedContrastive",
}
CALLBACKS = {
    "tensorboard": "asdf.training.trackers.TensorBoard",
    "wandb": "asdf.training.trackers.WeightsAndBiases",
    "mlflow": "asdf.training.trackers.MLflow",
}


@dataclass
class Network(KnownNames):
    """The network, its training and its scoring."""

    network_class: str = setting(
        "asdf.networks.SSL_AASIST",
        "class path of the network: the project's or your own",
        check="class_path",
    )
    resume_epoch: int | Literal["auto"] = setting(
        "auto",
        "'auto' goes on from the newest checkpoint; 0 starts afresh; N goes on from epoch N; -N "
        "only scores epoch N",
        at_least=-MAX_EPOCHS,
        at_most=MAX_EPOCHS,
    )
    max_epochs: int = setting(
        1000, "training ends after this number of epochs", at_least=1, at_most=MAX_EPOCHS
    )
    max_steps: int | None = setting(
        None, "training ends after this number of optimiser steps", at_least=1, at_most=MAX_STEPS
    )
    epochs_per_train_call: int = setting(
        1, "epochs between scorings of the validation sets", at_least=1, at_most=MAX_EPOCHS
    )
    evaluation_interval_steps: int | None = setting(
        None,
        "optimiser steps between further scorings of the validation sets",
        at_least=1,
        at_most=MAX_STEPS,
    )
    validation_metric: str = setting(
        "eer",
        "what chooses networks on the first validation set: 'best', the early stop, the average; "
        "a class path may also be that of a function f(bona_fide, spoof)",
        check="class_path",
        names=VALIDATION_METRICS,
    )
    early_stop_evaluations: int | None = setting(
        None,
        "stop after this number of scorings in a row without a new best validation_metric",
        at_least=1,
        at_most=MAX_STEPS,
    )

    minibatch_size: int = setting(
        24, "utterances per process and minibatch", at_least=1, at_most=MAX_UTTERANCES
    )
    optimizer_step_interval: int = setting(
        1,
        "minibatches per optimiser step (gradient accumulation)",
        at_least=1,
        at_most=MAX_UTTERANCES,
    )
    global_minibatch_size: int | None = setting(
        None,
        "utterances per minibatch of all processes together, so that steps do not depend on the "
        "number of processes; None: minibatch_size per process",
        at_least=1,
        at_most=MAX_UTTERANCES,
    )
    train_clip_size: int = setting(
        16000,
        "length of a training example",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_CLIP_SAMPLES,
    )
    clip_position: Literal["random", "start"] = setting(
        "random",
        "which part of a training utterance: 'random', another one in each epoch; 'start', its "
        "first samples, as in published XLS-R + AASIST recipes",
    )
    min_train_utterance_length_in_samples: int = setting(
        0,
        "shorter training utterances are left out",
        unit="samples",
        at_least=0,
        at_most=MAX_UTTERANCE_SAMPLES,
    )
    max_train_utterance_length_in_samples: int | None = setting(
        None,
        "longer training utterances are left out",
        unit="samples",
        at_least=1,
        at_most=MAX_UTTERANCE_SAMPLES,
    )
    eval_minibatch_size_factor: float | Literal["auto"] = setting(
        "auto",
        "a scoring batch holds up to minibatch_size * factor * train_clip_size samples; 'auto': 2 "
        "on a CPU, on a GPU what a quarter of its memory holds, never less than on a CPU",
        above=0,
        at_most=MAX_UTTERANCES,
    )
    min_evaluation_utterance_length_in_samples: int = setting(
        16000,
        "shorter utterances are repeated up to this length",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_CLIP_SAMPLES,
    )
    max_evaluation_utterance_length_in_samples: int = setting(
        1000000,
        "longer utterances are cut",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_UTTERANCE_SAMPLES,
    )
    max_cut_proportion: float = setting(
        0.0,
        "proportion of an utterance that may be cut to fit into a scoring batch; 0: nothing is cut",
        at_least=0,
        at_most=1,
    )
    score: Literal["bona_fide", "difference", "llr"] = setting(
        "bona_fide",
        "the score: the bona fide logit (column 1); the bona fide minus the spoof logit; or, with "
        "cross_entropy, that minus the log odds of the weighted training priors, a log-likelihood "
        "ratio",
    )
    print_interval: int = setting(
        10, "optimiser steps between progress lines", at_least=1, at_most=MAX_STEPS
    )
    scoring_print_interval: int = setting(
        50, "scoring batches between progress lines", at_least=1, at_most=MAX_STEPS
    )

    optimizer: str = setting("sgd", "the optimiser", check="class_path", names=OPTIMIZERS)
    initial_learning_rate: float = setting(0.1, "learning rate at the start", above=0)
    momentum: float = setting(0.0, "momentum of 'sgd'", at_least=0, at_most=1)
    adam_betas: tuple[float, float] = setting(
        (0.9, 0.999), "betas of 'adam' and 'adamw'", at_least=0, at_most=1
    )
    weight_decay: float = setting(0.001, "weight decay", at_least=0)
    weight_decay_skiplist: tuple[str, ...] = setting(
        ("batchnorm",),
        "no decay for parameters whose name, or whose module's class, contains one of these",
    )
    gradient_clip_norm: float | None = setting(
        None, "gradients are scaled down to this norm; None: no clipping", above=0
    )
    ema_decay: float | None = setting(
        None,
        "what is validated, selected and scored is a moving average of the weights, of which each "
        "optimiser step leaves this proportion, such as 0.999; None: the weights themselves",
        above=0,
        at_most=MAX_DECAY,
    )
    loss: str = setting(
        "cross_entropy",
        "what is minimised: one of ours (section loss), or the class path of your own",
        check="class_path",
        names=LOSSES,
    )
    class_weights: tuple[float, float] = setting(
        (1.0, 1.0), "weights of (spoof, bona fide) in the loss", above=0
    )

    schedule: str = setting(
        "plateau",
        "course of the learning rate: plateau, by epoch, as in the original; cosine, linear, "
        "cosine_restarts and step, down to min_learning_rate; or a function's path",
        check="class_path",
        names=SCHEDULES,
    )
    warmup_steps: int = setting(
        0,
        "number of steps over which the learning rate rises from 0",
        at_least=0,
        at_most=MAX_STEPS,
    )
    min_learning_rate: float = setting(
        0.0, "cosine, cosine_restarts, linear, step: the lowest learning rate", at_least=0
    )
    step_epochs: int = setting(
        10,
        "step: epochs between two reductions of the learning rate",
        unit="epochs",
        at_least=1,
        at_most=MAX_EPOCHS,
    )
    step_factor: float = setting(
        0.1, "step: factor by which the learning rate is multiplied", above=0, at_most=1
    )
    restart_epochs: int = setting(
        10,
        "cosine_restarts: epochs of the first cosine",
        unit="epochs",
        at_least=1,
        at_most=MAX_EPOCHS,
    )
    restart_growth: int = setting(
        1,
        "cosine_restarts: how many times as long each cosine is as the one before",
        at_least=1,
        at_most=1000,
    )
    lr_update_ratio: float = setting(
        0.5, "plateau: factor by which the learning rate is multiplied", above=0, at_most=1
    )
    max_consecutive_lr_updates: int = setting(
        2,
        "plateau: training ends after this number of updates in a row",
        at_least=1,
        at_most=MAX_STEPS,
    )
    min_loss_change_ratio: float = setting(
        0.01, "plateau test: (previous - current) / max(min_room, previous - target) is below this"
    )
    min_room_for_improvement: float = setting(
        0.1, "plateau test: lowest denominator (min_room)", above=0
    )
    target_loss: float = setting(0.1, "plateau test: the target loss", at_least=0)

    keep_last_networks: int | None = setting(
        None,
        "number of newest networks kept; None: all networks are kept",
        at_least=1,
        at_most=MAX_STEPS,
    )
    keep_best_networks: int = setting(
        3,
        "number of networks also kept for their validation_metric on the first validation set, if "
        "not all are kept",
        at_least=0,
        at_most=MAX_STEPS,
    )
    keep_every_epochs: int | None = setting(
        None,
        "networks of every N-th epoch are also kept, if not all are kept",
        at_least=1,
        at_most=MAX_EPOCHS,
    )
    average_best_networks: int = setting(
        0,
        "at the end the best N of the kept networks are averaged into networks/average.pt; 0: no "
        "average",
        at_least=0,
        at_most=MAX_EPOCHS,
    )
    save_only_trained: bool | Literal["auto"] = setting(
        "auto",
        "network files without the parameters of the front end that are not trained, which "
        "front_end.weights gives again: megabytes instead of gigabytes; 'auto': with lora and "
        "adapters",
    )
    checkpoint_interval_s: float | Literal["auto"] | None = setting(
        "auto",
        "time between checkpoints inside an epoch; 'auto': as soon as a kill would lose enough "
        "work to justify the time of writing one; None: none",
        unit="s",
        above=0,
        at_most=MAX_SECONDS,
    )
    checkpoint_interval_steps: int | None = setting(
        None, "optimiser steps between checkpoints inside an epoch", at_least=1, at_most=MAX_STEPS
    )
    callbacks: tuple[str, ...] = setting(
        (), "trackers, and callbacks of your own", check="class_path", names=CALLBACKS
    )
    callback_failures_end_training: bool = setting(
        False,
        "True: an exception in one of your callbacks ends the run; False: it is logged, and "
        "training goes on",
    )


# Front ends by the short names that `front_end.front_end_class` takes.
FRONT_ENDS = {
    "wav2vec2": "asdf.networks.Wav2Vec2FrontEnd",
    "raw": "asdf.networks.RawFrontEnd",
    "spectrogram": "asdf.networks.SpectrogramFrontEnd",
    "filter_bank": "asdf.networks.FilterBankFrontEnd",
    "log_mel": "asdf.networks.LogMelFrontEnd",
    "lfcc": "asdf.networks.LFCCFrontEnd",
    "mfcc": "asdf.networks.MFCCFrontEnd",
    "transformers": "asdf.networks.TransformersFrontEnd",
}


@dataclass
class Loss(KnownNames):
    """What the losses of `network.loss` need."""

    label_smoothing: float = setting(
        0.0,
        "cross_entropy: the other class counts half of it, and the true class so much less",
        at_least=0,
        at_most=1,
    )
    focal_gamma: float = setting(
        2.0, "focal: how much less utterances count that are classified well", at_least=0
    )
    scale: float = setting(
        32.0, "am_softmax, aam_softmax: factor of the cosines in the cross-entropy", above=0
    )
    margin: float = setting(
        0.2,
        "am_softmax: subtracted from the cosine of the true class; aam_softmax: added to its angle "
        "(radians)",
        at_least=0,
        at_most=2,
    )
    margin_warmup_epochs: float = setting(
        0.0,
        "epochs over which the margin rises from 0, step by step",
        at_least=0,
        at_most=MAX_EPOCHS,
    )
    easy_margin: bool = setting(
        False, "aam_softmax: the margin counts only where the cosine is above 0"
    )
    oc_alpha: float = setting(20.0, "oc_softmax: factor of the cosine", above=0)
    oc_margin_bona_fide: float = setting(
        0.9, "oc_softmax: bona fide cosines are drawn above it", at_least=-1, at_most=1
    )
    oc_margin_spoof: float = setting(
        0.2, "oc_softmax: cosines of spoofs are drawn below it", at_least=-1, at_most=1
    )
    contrastive_temperature: float = setting(
        0.07, "supervised_contrastive: cosines are divided by it", above=0
    )
    contrastive_weight: float = setting(
        1.0, "supervised_contrastive: its factor next to the cross-entropy", at_least=0
    )


@dataclass
class FrontEnd(KnownNames):
    """The front end of network classes that have one."""

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
        "themselves; of transformers: the text of a config.json",
        check="not_empty",
    )
    weights: str | None = setting(
        None,
        "None: random; a checkpoint file; a folder from Hugging Face; or 'torchaudio:NAME', a "
        "bundle of torchaudio.pipelines",
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
        at_most=MAX_EPOCHS,
    )
    trained_parts: tuple[str, ...] | None = setting(
        None,
        "what of it is trained: parts of it ('convolutions', 'projection', 'positions', 'layers', "
        "'norms', 'biases', 'masks'), some of its layers ('layers:1-12', 'layers:13-', counted as "
        "in front_end.layer), or patterns of parameter names ('*.attention.*'); None: all of it, "
        "or with lora or adapters only these",
        check="trained_parts",
    )
    cache_features: bool = setting(
        False,
        "frozen front end: compute its features of the training clips once and save them, as "
        "float16, below output_folder; needs network.clip_position = 'start' and no augmentation",
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
    dropout: float = setting(0.0, "dropout in the encoder, in training", at_least=0, at_most=1)
    layer_drop: float = setting(
        0.0,
        "probability that an encoder layer is left out of a minibatch, in training",
        at_least=0,
        at_most=1,
    )
    time_mask_proportion: float = setting(
        0.0,
        "proportion of the frames that masks cover in training, counted before overlaps; 0: none",
        at_least=0,
        at_most=1,
    )
    time_mask_length: int = setting(
        10, "length of a time mask", unit="frames", at_least=1, at_most=MAX_CLIP_SAMPLES
    )
    channel_mask_proportion: float = setting(
        0.0,
        "proportion of the feature values that masks cover in training, counted before overlaps; "
        "0: none",
        at_least=0,
        at_most=1,
    )
    channel_mask_length: int = setting(
        64, "width of a channel mask", unit="values", at_least=1, at_most=MAX_CLIP_SAMPLES
    )
    normalize_waveforms: bool = setting(
        False,
        "scale every waveform to zero mean and unit variance, as some pretrained networks expect",
    )


@dataclass
class Spectrum(KnownNames):
    """Spectral front ends (spectrogram, filter_bank, log_mel, lfcc, mfcc), and frames of raw."""

    window: int | None = setting(
        None,
        "length of a frame; None: 320 (20 ms), of log_mel 400, of raw 1",
        unit="samples",
        at_least=1,
        at_most=MAX_FFT,
    )
    hop: int | None = setting(
        None,
        "from the start of a frame to the next; None: 160, of raw the length of a frame",
        unit="samples",
        at_least=1,
        at_most=MAX_CLIP_SAMPLES,
    )
    n_fft: int | None = setting(
        None,
        "length of the Fourier transform; None: 512, of lfcc 1024",
        unit="samples",
        at_least=2,
        at_most=MAX_FFT,
    )
    window_shape: Literal["hamming", "hann"] = setting("hamming", "taper of a frame")
    pre_emphasis: float = setting(
        0.97,
        "part of the sample before that is subtracted from each sample; 0: none",
        at_least=0,
        at_most=1,
    )
    filters: int | None = setting(
        None,
        "triangular filters; None: 60 of filter_bank, 80 of log_mel, 20 of lfcc and mfcc",
        at_least=1,
        at_most=MAX_FILTERS,
    )
    low_hz: float = setting(
        0.0, "where the lowest filter begins", unit="Hz", at_least=0, at_most=MAX_HZ
    )
    high_hz: float | None = setting(
        None,
        "where the highest filter ends; None: 8000, of lfcc 4000",
        unit="Hz",
        above=0,
        at_most=MAX_HZ,
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
        "differences over time: 1, deltas; 2, also deltas of deltas; None: 2 of lfcc and mfcc, 0 "
        "of the others",
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


# Back ends, classes derived from asdf.networks.BackEnd, by the short names that
# `back_end.back_end_class` takes.
BACK_ENDS = {
    "aasist": "asdf.networks.AASISTBackEnd",
    "aasist_l": "asdf.networks.AASISTLBackEnd",
    "asp": "asdf.networks.ASPBackEnd",
    "mhfa": "asdf.networks.MHFABackEnd",
    "sls": "asdf.networks.SLSBackEnd",
    "nes2net_x": "asdf.networks.Nes2NetXBackEnd",
    "linear": "asdf.networks.LinearBackEnd",
    "conformer": "asdf.networks.ConformerBackEnd",
    "conformer_tcm": "asdf.networks.TCMBackEnd",
    "lcnn": "asdf.networks.LCNNBackEnd",
    "resnet18": "asdf.networks.ResNet18BackEnd",
    "ecapa": "asdf.networks.ECAPABackEnd",
}


@dataclass
class BackEnd(KnownNames):
    """The back end, and its sizes and RawNet2's; AASIST's are the published ones."""

    back_end_class: str | None = setting(
        None,
        "the back end of asdf.networks.ComposedDetector; other network classes have their own",
        check="class_path",
        names=BACK_ENDS,
    )
    asp_hidden: int = setting(
        128,
        "SSL_ASP: hidden units of the attention",
        unit="values",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    mhfa_heads: int = setting(64, "SSL_MHFA: attention heads", at_least=1, at_most=MAX_LAYER_WIDTH)
    mhfa_compression: int = setting(
        128,
        "SSL_MHFA: values that keys and values are compressed to",
        unit="values",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    mhfa_embedding: int = setting(
        256, "SSL_MHFA: size of the embedding", unit="values", at_least=1, at_most=MAX_LAYER_WIDTH
    )
    sls_samples: int = setting(
        64600,
        "SSL_SLS: the only length it takes; network.train_clip_size has to equal it",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_CLIP_SAMPLES,
    )
    sls_hidden: int = setting(
        1024, "SSL_SLS: size of the embedding", unit="values", at_least=1, at_most=MAX_LAYER_WIDTH
    )
    nes2net_splits: tuple[int, int] = setting(
        (8, 8),
        "SSL_Nes2NetX: number of parts of the features, and of parts of each of these",
        at_least=2,
        at_most=MAX_LAYER_WIDTH,
    )
    nes2net_dilation: int = setting(
        2,
        "SSL_Nes2NetX: dilation of its convolutions",
        unit="frames",
        at_least=1,
        at_most=MAX_CLIP_SAMPLES,
    )
    nes2net_squeeze: int = setting(
        1,
        "SSL_Nes2NetX: how many times narrower the squeeze-and-excitation layers are inside",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    nes2net_pooling: Literal["mean", "attentive"] = setting(
        "mean", "SSL_Nes2NetX: pooling over time; attentive: attentive statistics"
    )
    conformer_dimension: int = setting(
        144,
        "SSL_Conformer, SSL_ConformerTCM: size of the frames and of the embedding",
        unit="values",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    conformer_blocks: int = setting(
        4,
        "SSL_Conformer, SSL_ConformerTCM: number of blocks",
        at_least=1,
        at_most=MAX_BLOCKS,
    )
    conformer_heads: int = setting(
        4,
        "SSL_Conformer, SSL_ConformerTCM: attention heads",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    conformer_kernel: int = setting(
        31,
        "SSL_Conformer, SSL_ConformerTCM: what a block's convolution looks at",
        unit="frames",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    conformer_dropout: float = setting(
        0.0,
        "SSL_Conformer, SSL_ConformerTCM: dropout after each part of a block",
        at_least=0,
        at_most=1,
    )
    rawnet2_filters: int = setting(
        20,
        "RawNet2: band-pass filters, and channels of the first two blocks; 128 in the paper",
        at_least=1,
        at_most=1000,
    )
    rawnet2_taps: int = setting(
        1024,
        "RawNet2: length of the filters; 1 is added to an even one",
        unit="samples",
        at_least=1,
        at_most=16000,
    )
    rawnet2_channels: int = setting(
        128,
        "RawNet2: channels of the other four blocks; 512 in the paper",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    rawnet2_layers: int = setting(
        3, "RawNet2: gated recurrent layers", at_least=1, at_most=MAX_BLOCKS
    )
    rawnet2_recurrent: int = setting(
        1024, "RawNet2: units of each of them", at_least=1, at_most=MAX_LAYER_WIDTH
    )
    rawnet2_embedding: int = setting(
        1024, "RawNet2: size of the embedding", unit="values", at_least=1, at_most=MAX_LAYER_WIDTH
    )
    lcnn_projection: int = setting(
        0,
        "SSL_LCNN: values that features are projected to first; 0: not",
        unit="values",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    lcnn_dropout: float = setting(
        0.7, "SSL_LCNN: dropout after the convolutions", at_least=0, at_most=1
    )
    resnet_projection: int = setting(
        0,
        "SSL_ResNet18: values that features are projected to first; 0: not",
        unit="values",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    resnet_embedding: int = setting(
        256,
        "SSL_ResNet18: size of the embedding",
        unit="values",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    ecapa_channels: int = setting(
        512,
        "SSL_ECAPA: channels of its blocks; 1024 is the larger published size",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    ecapa_splits: int = setting(
        8, "SSL_ECAPA: parts of the channels of a Res2Net", at_least=2, at_most=MAX_BLOCKS
    )
    ecapa_attention: int = setting(
        128,
        "SSL_ECAPA: hidden units of the attention",
        unit="values",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    ecapa_embedding: int = setting(
        192, "SSL_ECAPA: size of the embedding", unit="values", at_least=1, at_most=MAX_LAYER_WIDTH
    )


@dataclass
class Lora(KnownNames):
    """Low-rank updates of the front end's linear maps, which learn in its stead (LoRA, DoRA)."""

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
    dropout: float = setting(
        0.0, "dropout of what the updates take, in training", at_least=0, at_most=1
    )
    decomposed: bool = setting(
        False, "True: the norms of the weights' rows learn as well (DoRA; Liu et al., ICML 2024)"
    )


@dataclass
class Adapter(KnownNames):
    """Bottleneck adapters in and behind the front end (Houlsby et al., ICML 2019)."""

    width: int = setting(
        0,
        "values of the bottleneck; 0: no adapters",
        unit="values",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    positions: tuple[Literal["before", "layers", "after"], ...] = setting(
        ("layers",),
        "'before': of the first encoder layer; 'layers': behind the feed-forward network of each "
        "computed layer; 'after': between front end and back end, with which it learns",
        check="unique",
    )


@dataclass
class RawBoost(KnownNames):
    """RawBoost augmentation of training examples (Tak et al., ICASSP 2022)."""

    # All names below are those of the authors' code, so that published values can be copied.
    enabled: bool = setting(False, "augment training examples")
    applyingRatio: float = setting(
        0.8, "proportion of the examples that are augmented", at_least=0, at_most=1
    )
    algo: int = setting(
        5,
        "0 none, 1 LnL, 2 ISD, 3 SSI, 4 1+2+3, 5 1+2, 6 1+3, 7 2+3 in series, 8 1 and 2 in "
        "parallel",
        at_least=0,
        at_most=8,
    )
    nBands: int = setting(5, "LnL: number of notch filters", at_least=1, at_most=1000)
    minF: float = setting(20, "LnL: lowest centre frequency", unit="Hz", at_least=0, at_most=MAX_HZ)
    maxF: float = setting(8000, "LnL: highest centre frequency", unit="Hz", above=0, at_most=MAX_HZ)
    minBW: float = setting(100, "LnL: narrowest notch", unit="Hz", above=0, at_most=MAX_HZ)
    maxBW: float = setting(1000, "LnL: widest notch", unit="Hz", above=0, at_most=MAX_HZ)
    minCoeff: int = setting(
        10, "LnL: lowest number of filter coefficients", at_least=1, at_most=MAX_LAYER_WIDTH
    )
    maxCoeff: int = setting(
        100, "LnL: highest number of filter coefficients", at_least=1, at_most=MAX_LAYER_WIDTH
    )
    minG: float = setting(
        0, "LnL: lowest gain of the linear part", unit="dB", at_least=-MAX_DB, at_most=MAX_DB
    )
    maxG: float = setting(
        0,
        "LnL: highest gain of the linear part",
        unit="dB",
        at_least=-MAX_DB,
        at_most=MAX_DB,
    )
    minBiasLinNonLin: float = setting(
        5,
        "LnL: smallest gap between linear and non-linear gain",
        unit="dB",
        at_least=-MAX_DB,
        at_most=MAX_DB,
    )
    maxBiasLinNonLin: float = setting(
        20,
        "LnL: largest gap between linear and non-linear gain",
        unit="dB",
        at_least=-MAX_DB,
        at_most=MAX_DB,
    )
    N_f: int = setting(5, "LnL: order of the non-linearity", at_least=1, at_most=100)
    P: float = setting(
        10, "ISD: highest percentage of samples disturbed", unit="%", at_least=0, at_most=100
    )
    g_sd: float = setting(2, "ISD: gain", above=0, at_most=1000)
    SNRmin: float = setting(
        10, "SSI: lowest signal-to-noise ratio", unit="dB", at_least=-MAX_DB, at_most=MAX_DB
    )
    SNRmax: float = setting(
        40,
        "SSI: highest signal-to-noise ratio",
        unit="dB",
        at_least=-MAX_DB,
        at_most=MAX_DB,
    )
    on_device: bool = setting(
        False,
        "augment whole batches on the device instead of single clips in the loader's processes",
    )


AUGMENTATIONS = {
    "speed": "asdf.audio.augmentation.speed.Speed",
    "noise": "asdf.audio.augmentation.noise.Noise",
    "reverberation": "asdf.audio.augmentation.reverberation.Reverberation",
    "codec": "asdf.audio.augmentation.codecs.Coding",
    "silence": "asdf.audio.augmentation.silence.TrimmedSilence",
    "bandwidth": "asdf.audio.augmentation.bandwidth.Bandwidth",
    "frequency_mask": "asdf.audio.augmentation.masks.FrequencyMask",
    "time_mask": "asdf.audio.augmentation.masks.TimeMask",
}


@dataclass
class Augmentation(KnownNames):
    """Augmentation of training examples, before RawBoost; scored recordings stay as they are."""

    chain: tuple[str, ...] = setting(
        (),
        "augmentations of a training example, in this order; (): none",
        check="class_path",
        names=AUGMENTATIONS,
    )
    speed_probability: float = setting(
        0.5, "proportion of the examples played faster or slower", at_least=0, at_most=1
    )
    speed_min: float = setting(
        0.9, "lowest speed; 0.9 takes 1/0.9 of the time, and lowers the pitch", at_least=0.5
    )
    speed_max: float = setting(1.1, "highest speed; speeds are drawn in steps of 0.01", at_most=2)
    noise_probability: float = setting(
        0.5, "proportion of the examples with a noise added", at_least=0, at_most=1
    )
    noise_folders: tuple[str, ...] = setting(
        (),
        "folders with recordings of noise, relative to database_folder, such as MUSAN's noise and "
        "music",
        check="path",
    )
    noise_snr_min_db: float = setting(
        5.0, "lowest signal-to-noise ratio", unit="dB", at_least=-MAX_DB, at_most=MAX_DB
    )
    noise_snr_max_db: float = setting(
        20.0, "highest signal-to-noise ratio", unit="dB", at_least=-MAX_DB, at_most=MAX_DB
    )
    reverberation_probability: float = setting(
        0.5,
        "proportion of the examples convolved with a room impulse response",
        at_least=0,
        at_most=1,
    )
    reverberation_folders: tuple[str, ...] = setting(
        (),
        "folders with room impulse responses, relative to database_folder, such as RIRS_NOISES",
        check="path",
    )
    codec_probability: float = setting(
        0.5, "proportion of the examples coded and decoded", at_least=0, at_most=1
    )
    codecs: tuple[
        Literal["mu-law", "a-law", "gsm", "mp3", "vorbis", "opus", "g722", "aac"], ...
    ] = setting(
        ("mu-law", "a-law", "gsm", "mp3", "vorbis", "opus"),
        "codecs to draw from, together with a bit rate; mu-law, a-law, gsm at 8 kHz; g722 and aac "
        "need PyAV",
        check="unique",
    )
    silence_probability: float = setting(
        0.5,
        "proportion of the examples whose silences at both ends are shortened",
        at_least=0,
        at_most=1,
    )
    silence_threshold_db: float = setting(
        40.0,
        "a frame is silent if its energy is more than this below that of the loudest frame",
        unit="dB",
        above=0,
        at_most=MAX_DB,
    )
    silence_max_s: float = setting(
        0.1,
        "longest silence that is left at each end; how much is drawn from 0 to this",
        unit="s",
        at_least=0,
        at_most=3600,
    )
    bandwidth_probability: float = setting(
        0.5, "proportion of the examples with a limited bandwidth", at_least=0, at_most=1
    )
    bandwidth_min_hz: float = setting(
        3400.0, "lowest limit of the bandwidth", unit="Hz", at_least=100, at_most=8000
    )
    bandwidth_max_hz: float = setting(
        7500.0, "highest limit of the bandwidth", unit="Hz", at_least=100, at_most=8000
    )
    frequency_mask_probability: float = setting(
        0.5, "proportion of the examples with stopped bands of frequencies", at_least=0, at_most=1
    )
    frequency_mask_count: int = setting(
        2, "number of bands that are stopped", at_least=1, at_most=100
    )
    frequency_mask_max_hz: float = setting(
        1000.0, "widest band that is stopped", unit="Hz", above=0, at_most=8000
    )
    time_mask_probability: float = setting(
        0.5, "proportion of the examples with silenced stretches", at_least=0, at_most=1
    )
    time_mask_count: int = setting(
        2, "number of stretches that are silenced", at_least=1, at_most=1000
    )
    time_mask_max_s: float = setting(
        0.2, "longest stretch that is silenced", unit="s", above=0, at_most=3600
    )
    mixup_probability: float = setting(
        0.0,
        "proportion of the examples that are mixed with another utterance's, and their losses as "
        "well; 0: none",
        at_least=0,
        at_most=1,
    )
    mixup_alpha: float = setting(
        0.4,
        "shape of the beta distribution of the weights: 1 is uniform; small values leave mostly "
        "one of the two",
        above=0,
        at_most=1000,
    )


VOCODERS = {
    "griffin_lim": "asdf.audio.vocoding.griffin_lim.GriffinLim",
    "source_filter": "asdf.audio.vocoding.source_filter.SourceFilter",
    "lpc": "asdf.audio.vocoding.lpc.LinearPrediction",
    "phase": "asdf.audio.vocoding.phase.PhaseReplacement",
}


@dataclass
class Vocoding(KnownNames):
    """Spoofs made of bona fide training utterances, which are copied through vocoders."""

    vocoders: tuple[str, ...] = setting(
        (),
        "copies of bona fide training utterances are made by these vocoders and trained on as "
        "spoofs; (): none",
        check="class_path",
        names=VOCODERS,
    )
    copies: float = setting(
        1.0,
        "copies of each bona fide training utterance, each by the next of the vocoders; 0.5: one "
        "of every second utterance",
        above=0,
        at_most=1000,
    )
    corpus_spoofs: bool = setting(
        True,
        "True: the spoofs of the training sets are trained on as well; False: they are left out, "
        "and the copies are all spoofs that there are",
    )
    mel_bands: int = setting(
        80, "griffin_lim: mel bands of its spectrogram", at_least=8, at_most=1000
    )
    griffin_lim_rounds: int = setting(
        16, "griffin_lim: rounds in which phases are estimated", at_least=1, at_most=1000
    )
    lpc_order: int = setting(20, "lpc: coefficients of the predictor", at_least=2, at_most=100)
    envelope_coefficients: int = setting(
        41, "source_filter: cepstral coefficients of its envelope", at_least=2, at_most=200
    )
    phase: Literal["minimum", "random", "either"] = setting(
        "either",
        "phase: the phases that replace those of the voice; either: one of the two is drawn for "
        "each example",
    )


@dataclass
class SpeechActivity(KnownNames):
    """Speech activity detection."""

    mode: Literal["off", "endpoint", "on"] = setting(
        "off", "off; endpoint: the silent ends are trimmed; on: all non-speech is dropped"
    )
    threshold_db: float = setting(
        30.0,
        "energy: a frame is speech if its energy is within this range of the loudest frame",
        unit="dB",
        above=0,
        at_most=MAX_DB,
    )
    hangover_s: float = setting(
        0.1,
        "time that counts as speech after the last frame of speech",
        unit="s",
        at_least=0,
        at_most=3600,
    )
    detector: Literal["energy", "silero"] = setting(
        "energy",
        "how speech is detected: by energy, or by the network of Silero VAD (pip install "
        "silero-vad)",
    )
    silero_threshold: float = setting(
        0.5, "silero: a frame is speech from this probability on", at_least=0, at_most=1
    )


SAMPLERS = {
    "shuffled": "asdf.data.samplers.Shuffled",
    "balanced_classes": "asdf.data.samplers.BalancedClasses",
    "balanced_attacks": "asdf.data.samplers.BalancedAttacks",
    "balanced_corpora": "asdf.data.samplers.BalancedCorpora",
    "weighted_corpora": "asdf.data.samplers.WeightedCorpora",
}


@dataclass
class Tracking(KnownNames):
    """What trackers among `network.callbacks` call the run, and where they save it."""

    project: str = setting("asdf", "wandb: the project; mlflow: the experiment", check="not_empty")
    name: str | None = setting(None, "name of the run; None: that of the system folder")
    offline: bool = setting(
        False, "wandb: save in the system folder, for `wandb sync`, instead of sending"
    )
    mlflow_uri: str | None = setting(
        None, "mlflow: address of the server or database; None: mlflow.db in the system folder"
    )


@dataclass
class Recipe(KnownNames):
    """Which stages run, on which corpora."""

    start_stage: int = setting(0, "first stage to run", at_least=0, at_most=MAX_STAGES)
    end_stage: int = setting(100, "last stage to run", at_least=0, at_most=MAX_STAGES)
    selected_epochs: tuple[int | Literal["best", "average", "last"], ...] | None = setting(
        None,
        "epochs to evaluate: numbers, 'best', 'average', 'last'; None: the last one",
        check="unique",
        at_most=MAX_EPOCHS,
    )
    training_sets: tuple[str, ...] = setting(
        ("asvspoof19",), "names of corpora known to the recipe", check="unique"
    )
    validation_sets: tuple[str, ...] | None = setting(
        None,
        "scored during training; the first one decides which epoch is best; None: the "
        "evaluation_sets",
        check="unique",
    )
    evaluation_sets: tuple[str, ...] = setting(
        ("asvspoof19-dev", "asvspoof19-eval"),
        "names of corpora known to the recipe",
        check="unique",
    )
    leave_out: tuple[str, ...] | None = setting(
        None,
        "a column and values, such as ('attack', 'A07', 'A08'): training does without them, and "
        "validation is restricted to them; evaluation sets stay whole",
    )
    sampler: str = setting(
        "shuffled",
        "the turns of training utterances in an epoch; shuffled: each has one; balanced: classes, "
        "attacks (bona fide: half of the turns) or training sets have as many turns as each other",
        check="class_path",
        names=SAMPLERS,
    )
    set_weights: tuple[float, ...] | None = setting(
        None,
        "sampler weighted_corpora: a weight per training set, to which its turns are proportional",
        above=0,
    )
    check_recordings: bool = setting(
        True,
        "stage 0 decodes every training recording to its end once, so that a damaged one is found "
        "before training",
    )
    seed: int = setting(
        0, "all random numbers of a run follow from it", at_least=0, at_most=2**32 - 1
    )

    def execute_stage(self, stage: int) -> bool:
        """Whether `stage` is among those to run."""
        return self.start_stage <= stage <= self.end_stage


@dataclass
class Sections(KnownNames):
    """All sections: the type of a plain copy of `Settings()`, which the rooms below work with."""

    paths: Paths = field(default_factory=Paths)
    computing: Computing = field(default_factory=Computing)
    network: Network = field(default_factory=Network)
    loss: Loss = field(default_factory=Loss)
    front_end: FrontEnd = field(default_factory=FrontEnd)
    spectrum: Spectrum = field(default_factory=Spectrum)
    back_end: BackEnd = field(default_factory=BackEnd)
    lora: Lora = field(default_factory=Lora)
    adapter: Adapter = field(default_factory=Adapter)
    rawboost: RawBoost = field(default_factory=RawBoost)
    augmentation: Augmentation = field(default_factory=Augmentation)
    vocoding: Vocoding = field(default_factory=Vocoding)
    sad: SpeechActivity = field(default_factory=SpeechActivity)
    tracking: Tracking = field(default_factory=Tracking)
    recipe: Recipe = field(default_factory=Recipe)
    declared: dict[str, Any] = field(default_factory=dict)
    """The sections that classes of the user's declare, by their names: `settings.my_section.x`
    reads them like the others."""

    def own(self, kind: type[Declared]) -> Declared:
        """Return the section of a class that a user's class declares, `settings.my_section`."""
        section: Declared = getattr(self, kind.section_name)  # type: ignore[attr-defined]
        return section

    def plain(self) -> dict[str, dict[str, Any]]:
        """Return plain values, by section and name."""
        values = asdict(self)
        declared: dict[str, dict[str, Any]] = values.pop("declared")
        return values | declared

    # Hidden from type checkers, which find unknown names by themselves only without it.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # While an object is copied or unpickled it has no attributes yet.
            declared = self.__dict__.get("declared", {})
            if name in declared:
                return declared[name]
            raise no_section(name, (*self.__dataclass_fields__, *declared))


def no_section(name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for reading a section that does not exist."""
    names = [section for section in known if section != "declared"]
    return UnknownName(f"there is no section '{name}'{nearest(name, names)}")


def assign(sections: object, values: Mapping[str, Any]) -> None:
    """Set settings by their full names, section.name, in `Sections` or in `Settings()`."""
    for name, value in values.items():
        section, _, setting = name.partition(".")
        setattr(getattr(sections, section), setting, value)
