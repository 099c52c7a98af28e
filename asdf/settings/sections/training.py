"""Sections of the network, of its training and scoring, of its losses and of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.fields import FRAME_SAMPLES, MAX_CLIP_SAMPLES, proportion, setting
from asdf.settings.mistakes import KnownNames

# Short names of classes and functions in settings, with their paths.
# Texts, not the classes themselves: reading settings imports no torch.
OPTIMIZERS = {"sgd": "torch.optim.SGD", "adam": "torch.optim.Adam", "adamw": "torch.optim.AdamW"}


SCHEDULES = {
    "plateau": "asdf.training.schedules.plateau",
    "cosine": "asdf.training.schedules.cosine",
    "constant": "asdf.training.schedules.constant",
    "linear": "asdf.training.schedules.linear",
    "step": "asdf.training.schedules.step",
}


TRAINING_STEPS = {"plain": "asdf.training.steps.Plain"}


VALIDATION_METRICS = {
    "eer": "asdf.metrics.validation.EER",
    "frame_eer": "asdf.tasks.localisation.task.FrameEER",
    "min_dcf": "asdf.metrics.detection.min_dcf",
    "act_dcf": "asdf.metrics.detection.act_dcf",
    "cllr": "asdf.metrics.detection.cllr",
    "min_cllr": "asdf.metrics.detection.min_cllr",
    "auc": "asdf.metrics.validation.AUC",
    "best_macro_f1": "asdf.metrics.validation.BestMacroF1",
    "source_accuracy": "asdf.tasks.tracing.source_measures.SourceAccuracy",
    "source_macro_f1": "asdf.tasks.tracing.source_measures.SourceMacroF1",
}


SOURCE_METRICS = ("source_accuracy", "source_macro_f1")
"""Metrics among these that concern source tracing."""


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
    "tensorboard": "asdf.training.callbacks.TensorBoard",
    "wandb": "asdf.training.callbacks.WeightsAndBiases",
}


@dataclass
class Network(KnownNames):
    """The network, its training and its scoring."""

    network_class: str = setting("asdf.networks.SSL_AASIST", check="class_path")
    """class path of the network: the project's or your own"""
    initial_network: str | None = setting(None, check="path")
    """a whole network that training begins with: a path, in any layout that `import` reads, or
    'hub:ORG/NAME'; the config has to describe the same network"""
    resume_epoch: int | Literal["auto"] = "auto"
    """'auto' resumes from the newest checkpoint; 0 starts afresh; N resumes from epoch N; -N only
    scores epoch N"""
    max_epochs: int = setting(1000, at_least=1)
    """training ends after this number of epochs"""
    max_steps: int | None = setting(None, at_least=1)
    """training ends after this number of optimiser steps"""
    epochs_per_train_call: int = setting(1, at_least=1)
    """epochs between scorings of the validation sets"""
    evaluation_interval_steps: int | None = setting(None, at_least=1)
    """optimiser steps between further scorings of the validation sets"""
    validation_metric: str = setting("eer", check="class_path", names=VALIDATION_METRICS)
    """what chooses networks on the first validation set: 'best', the early stop, the average; a
    class path may also be that of a function f(bona_fide, spoof)"""
    early_stop_evaluations: int | None = setting(None, at_least=1)
    """stop after this number of scorings in a row without a new best validation_metric"""

    minibatch_size: int = setting(24, at_least=1)
    """utterances per process and minibatch"""
    optimizer_step_interval: int = setting(1, at_least=1)
    """minibatches per optimiser step (gradient accumulation)"""
    global_minibatch_size: int | None = setting(None, at_least=1)
    """utterances per minibatch of all processes together, so that steps do not depend on the number
    of processes; None: minibatch_size per process"""
    train_clip_size: int = setting(16000, unit="samples", at_least=FRAME_SAMPLES)
    """length of a training example"""
    clip_position: Literal["random", "start"] = "random"
    """which part of a training utterance: 'random', another one in each epoch; 'start', its first
    samples, as in published XLS-R + AASIST recipes"""
    min_train_utterance_length_in_samples: int = setting(0, unit="samples", at_least=0)
    """shorter training utterances are left out"""
    max_train_utterance_length_in_samples: int | None = setting(None, unit="samples", at_least=1)
    """longer training utterances are left out"""
    eval_minibatch_size_factor: float | Literal["auto"] = setting("auto", above=0)
    """a scoring batch holds up to minibatch_size * factor * train_clip_size samples; 'auto': 2 on a
    CPU, on a GPU what a quarter of its memory holds, never less than on a CPU"""
    min_evaluation_utterance_length_in_samples: int = setting(
        16000, unit="samples", at_least=FRAME_SAMPLES, at_most=MAX_CLIP_SAMPLES
    )
    """shorter utterances are repeated up to this length"""
    max_evaluation_utterance_length_in_samples: int = setting(
        1000000, unit="samples", at_least=FRAME_SAMPLES
    )
    """longer utterances are cut"""
    max_cut_proportion: float = proportion(0.0)
    """proportion of an utterance that may be cut to fit into a scoring batch; 0: nothing is cut"""
    score: Literal["bona_fide", "difference", "llr"] = "bona_fide"
    """the score: the bona fide logit (column 1); the bona fide minus the spoof logit; or, with
    cross_entropy, that minus the log odds of the weighted training priors, a log-likelihood
    ratio"""
    print_interval: int = setting(10, at_least=1)
    """optimiser steps between progress lines"""
    scoring_print_interval: int = setting(50, at_least=1)
    """scoring batches between progress lines"""

    optimizer: str = setting("sgd", check="class_path", names=OPTIMIZERS)
    """the optimiser"""
    initial_learning_rate: float = setting(0.1, above=0)
    """learning rate at the start"""
    momentum: float = proportion(0.0)
    """momentum of 'sgd'"""
    adam_betas: tuple[float, float] = setting((0.9, 0.999), at_least=0, at_most=1)
    """betas of 'adam' and 'adamw'"""
    weight_decay: float = setting(0.001, at_least=0)
    """weight decay"""
    weight_decay_skiplist: tuple[str, ...] = ("batchnorm",)
    """no decay for parameters whose name, or whose module's class, contains one of these"""
    gradient_clip_norm: float | None = setting(None, above=0)
    """gradients are scaled down to this norm; None: no clipping"""
    # A higher decay would never leave its start.
    ema_decay: float | None = setting(None, above=0, at_most=1 - 1e-7)
    """what is validated, selected and scored is a moving average of the weights, of which each
    optimiser step leaves this proportion, such as 0.999; None: the weights themselves"""
    loss: str = setting("cross_entropy", check="class_path", names=LOSSES)
    """what is minimised: a loss by name (section loss), or the class path of your own"""
    class_weights: tuple[float, float] = setting((1.0, 1.0), above=0)
    """weights of (spoof, bona fide) in the loss"""

    training_step: str = setting("plain", check="class_path", names=TRAINING_STEPS)
    """how the gradient of a step is computed: by one pass over its utterances, or as a class of
    your own does it (SAM, MLDG, adversarial training, teachers ...), derived from
    asdf.training.steps.TrainingStep"""

    schedule: str = setting("plateau", check="class_path", names=SCHEDULES)
    """course of the learning rate: plateau, by epoch, as in the original; cosine, linear and step,
    down to min_learning_rate; or a function's path"""
    warmup_steps: int = setting(0, at_least=0)
    """number of steps over which the learning rate rises from 0"""
    min_learning_rate: float = setting(0.0, at_least=0)
    """cosine, linear, step: the lowest learning rate"""
    step_epochs: int = setting(10, unit="epochs", at_least=1)
    """step: epochs between two reductions of the learning rate"""
    step_factor: float = setting(0.1, above=0, at_most=1)
    """step: factor by which the learning rate is multiplied"""
    lr_update_ratio: float = setting(0.5, above=0, at_most=1)
    """plateau: factor by which the learning rate is multiplied"""
    max_consecutive_lr_updates: int = setting(2, at_least=1)
    """plateau: training ends after this number of updates in a row"""
    min_loss_change_ratio: float = 0.01
    """plateau test: (previous - current) / max(min_room, previous - target) is below this"""
    min_room_for_improvement: float = setting(0.1, above=0)
    """plateau test: lowest denominator (min_room)"""
    target_loss: float = setting(0.1, at_least=0)
    """plateau test: the target loss"""

    keep_last_networks: int | None = setting(None, at_least=1)
    """number of newest networks retained; None: all networks"""
    keep_best_networks: int = setting(3, at_least=0)
    """number of networks also retained for their validation_metric on the first validation set, if
    not all are"""
    average_best_networks: int = setting(0, at_least=0)
    """at the end the best N of the retained networks are averaged into networks/average.pt; 0: no
    average"""
    save_only_trained: bool | Literal["auto"] = "auto"
    """network files without the parameters of the front end that are not trained, which
    front_end.weights gives again: megabytes instead of gigabytes; 'auto': with lora"""
    checkpoint_interval_s: float | Literal["auto"] | None = setting("auto", unit="s", above=0)
    """time between checkpoints inside an epoch; 'auto': as soon as a kill would lose enough work to
    justify the time of writing one; None: none"""
    checkpoint_interval_steps: int | None = setting(None, at_least=1)
    """optimiser steps between checkpoints inside an epoch"""
    tasks: tuple[str, ...] = setting((), check="class_path")
    """tasks of your own, learnt next to detection: classes derived from asdf.tasks.Task"""
    callbacks: tuple[str, ...] = setting((), check="class_path", names=CALLBACKS)
    """trackers, and callbacks of your own"""

    @property
    def scores_only(self) -> bool:
        """Whether resume_epoch = -N requests the scores of epoch N without training."""
        return isinstance(self.resume_epoch, int) and self.resume_epoch < 0


@dataclass
class Loss(KnownNames):
    """Parameters of the losses in `network.loss`."""

    detection_weight: float = setting(1.0, at_least=0)
    """weight of network.loss next to further terms of the loss; 0: the network learns by the others
    alone"""
    label_smoothing: float = proportion(0.0)
    """cross_entropy: target of the other class is half of it, and that of the true class 1 minus
    that"""
    focal_gamma: float = setting(2.0, at_least=0)
    """focal: how strongly well-classified utterances are down-weighted"""
    scale: float = setting(32.0, above=0)
    """am_softmax, aam_softmax: factor of the cosines in the cross-entropy"""
    margin: float = setting(0.2, at_least=0, at_most=2)
    """am_softmax: subtracted from the cosine of the true class; aam_softmax: added to its angle
    (radians)"""
    margin_warmup_epochs: float = setting(0.0, at_least=0)
    """epochs over which the margin rises from 0, step by step"""
    oc_alpha: float = setting(20.0, above=0)
    """oc_softmax: factor of the cosine"""
    oc_margin_bona_fide: float = setting(0.9, at_least=-1, at_most=1)
    """oc_softmax: bona fide cosines are drawn above it"""
    oc_margin_spoof: float = setting(0.2, at_least=-1, at_most=1)
    """oc_softmax: cosines of spoofs are drawn below it"""
    contrastive_temperature: float = setting(0.07, above=0)
    """supervised_contrastive: cosines are divided by it"""
    contrastive_weight: float = setting(1.0, at_least=0)
    """supervised_contrastive: its factor next to the cross-entropy"""


SOURCE_HEADS = {
    "linear": "asdf.networks.LinearClassHead",
    "cosine": "asdf.networks.CosineClassHead",
}


@dataclass
class Source(KnownNames):
    """Source tracing: classes of a column of the trial list, learnt in addition to detection."""

    column: str | None = None
    """column of the trial list whose values are the classes, such as 'attack', 'vocoder' or
    'language'; None: no source tracing"""
    classes: tuple[str, ...] | None = setting(None, check="unique")
    """the classes; trials of other values are not learnt from, and unknown when they are scored;
    None: all values of the training list, sorted"""
    bona_fide: Literal["left_out", "class", "by_column"] = "left_out"
    """bona fide trials are 'left_out', a 'class' of their own, or of the class that the column
    says, as for languages"""
    weight: float = setting(1.0, above=0)
    """weight of the classes' loss next to that of detection (loss.detection_weight)"""
    head: str = setting("linear", check="class_path", names=SOURCE_HEADS)
    """what computes the classes from embeddings: a linear layer by cross-entropy; cosines with a
    vector per class by additive-margin softmax; or the class path of your own"""
    scale: float = setting(32.0, above=0)
    """cosine: factor of the cosines"""
    margin: float = setting(0.2, at_least=0, at_most=2)
    """cosine: subtracted from the cosine of the true class in training"""
