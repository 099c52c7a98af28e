"""Sections of the network, of its training and scoring, of its losses and of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import FRAME_SAMPLES, MAX_CLIP_SAMPLES, proportion, setting

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

    network_class: str = setting(
        "asdf.networks.SSL_AASIST",
        "class path of the network: the project's or your own",
        check="class_path",
    )
    initial_network: str | None = setting(
        None,
        "a whole network that training begins with: a path, in any layout that `import` reads, or "
        "'hub:ORG/NAME'; the config has to describe the same network",
        check="path",
    )
    resume_epoch: int | Literal["auto"] = setting(
        "auto",
        "'auto' resumes from the newest checkpoint; 0 starts afresh; N resumes from epoch N; -N "
        "only scores epoch N",
    )
    max_epochs: int = setting(1000, "training ends after this number of epochs", at_least=1)
    max_steps: int | None = setting(
        None, "training ends after this number of optimiser steps", at_least=1
    )
    epochs_per_train_call: int = setting(
        1, "epochs between scorings of the validation sets", at_least=1
    )
    evaluation_interval_steps: int | None = setting(
        None, "optimiser steps between further scorings of the validation sets", at_least=1
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
    )

    minibatch_size: int = setting(24, "utterances per process and minibatch", at_least=1)
    optimizer_step_interval: int = setting(
        1, "minibatches per optimiser step (gradient accumulation)", at_least=1
    )
    global_minibatch_size: int | None = setting(
        None,
        "utterances per minibatch of all processes together, so that steps do not depend on the "
        "number of processes; None: minibatch_size per process",
        at_least=1,
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
        0, "shorter training utterances are left out", unit="samples", at_least=0
    )
    max_train_utterance_length_in_samples: int | None = setting(
        None, "longer training utterances are left out", unit="samples", at_least=1
    )
    eval_minibatch_size_factor: float | Literal["auto"] = setting(
        "auto",
        "a scoring batch holds up to minibatch_size * factor * train_clip_size samples; 'auto': 2 "
        "on a CPU, on a GPU what a quarter of its memory holds, never less than on a CPU",
        above=0,
    )
    min_evaluation_utterance_length_in_samples: int = setting(
        16000,
        "shorter utterances are repeated up to this length",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_CLIP_SAMPLES,
    )
    max_evaluation_utterance_length_in_samples: int = setting(
        1000000, "longer utterances are cut", unit="samples", at_least=FRAME_SAMPLES
    )
    max_cut_proportion: float = proportion(
        0.0,
        "proportion of an utterance that may be cut to fit into a scoring batch; 0: nothing is cut",
    )
    score: Literal["bona_fide", "difference", "llr"] = setting(
        "bona_fide",
        "the score: the bona fide logit (column 1); the bona fide minus the spoof logit; or, with "
        "cross_entropy, that minus the log odds of the weighted training priors, a log-likelihood "
        "ratio",
    )
    print_interval: int = setting(10, "optimiser steps between progress lines", at_least=1)
    scoring_print_interval: int = setting(50, "scoring batches between progress lines", at_least=1)

    optimizer: str = setting("sgd", "the optimiser", check="class_path", names=OPTIMIZERS)
    initial_learning_rate: float = setting(0.1, "learning rate at the start", above=0)
    momentum: float = proportion(0.0, "momentum of 'sgd'")
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
        at_most=1 - 1e-7,  # a higher decay would never leave its start
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

    training_step: str = setting(
        "plain",
        "how the gradient of a step is computed: by one pass over its utterances, or as a class of "
        "your own does it (SAM, MLDG, adversarial training, teachers ...), derived from "
        "asdf.training.steps.TrainingStep",
        check="class_path",
        names=TRAINING_STEPS,
    )

    schedule: str = setting(
        "plateau",
        "course of the learning rate: plateau, by epoch, as in the original; cosine, linear "
        "and step, down to min_learning_rate; or a function's path",
        check="class_path",
        names=SCHEDULES,
    )
    warmup_steps: int = setting(
        0, "number of steps over which the learning rate rises from 0", at_least=0
    )
    min_learning_rate: float = setting(
        0.0, "cosine, linear, step: the lowest learning rate", at_least=0
    )
    step_epochs: int = setting(
        10, "step: epochs between two reductions of the learning rate", unit="epochs", at_least=1
    )
    step_factor: float = setting(
        0.1, "step: factor by which the learning rate is multiplied", above=0, at_most=1
    )
    lr_update_ratio: float = setting(
        0.5, "plateau: factor by which the learning rate is multiplied", above=0, at_most=1
    )
    max_consecutive_lr_updates: int = setting(
        2, "plateau: training ends after this number of updates in a row", at_least=1
    )
    min_loss_change_ratio: float = setting(
        0.01, "plateau test: (previous - current) / max(min_room, previous - target) is below this"
    )
    min_room_for_improvement: float = setting(
        0.1, "plateau test: lowest denominator (min_room)", above=0
    )
    target_loss: float = setting(0.1, "plateau test: the target loss", at_least=0)

    keep_last_networks: int | None = setting(
        None, "number of newest networks retained; None: all networks", at_least=1
    )
    keep_best_networks: int = setting(
        3,
        "number of networks also retained for their validation_metric on the first validation set, "
        "if not all are",
        at_least=0,
    )
    average_best_networks: int = setting(
        0,
        "at the end the best N of the retained networks are averaged into networks/average.pt; 0: "
        "no average",
        at_least=0,
    )
    save_only_trained: bool | Literal["auto"] = setting(
        "auto",
        "network files without the parameters of the front end that are not trained, which "
        "front_end.weights gives again: megabytes instead of gigabytes; 'auto': with lora",
    )
    checkpoint_interval_s: float | Literal["auto"] | None = setting(
        "auto",
        "time between checkpoints inside an epoch; 'auto': as soon as a kill would lose enough "
        "work to justify the time of writing one; None: none",
        unit="s",
        above=0,
    )
    checkpoint_interval_steps: int | None = setting(
        None, "optimiser steps between checkpoints inside an epoch", at_least=1
    )
    tasks: tuple[str, ...] = setting(
        (),
        "tasks of your own, learnt next to detection: classes derived from asdf.tasks.Task",
        check="class_path",
    )
    callbacks: tuple[str, ...] = setting(
        (), "trackers, and callbacks of your own", check="class_path", names=CALLBACKS
    )

    @property
    def scores_only(self) -> bool:
        """Whether resume_epoch = -N requests the scores of epoch N without training."""
        return isinstance(self.resume_epoch, int) and self.resume_epoch < 0


@dataclass
class Loss(KnownNames):
    """Parameters of the losses in `network.loss`."""

    detection_weight: float = setting(
        1.0,
        "weight of network.loss next to further terms of the loss; 0: the network learns by the "
        "others alone",
        at_least=0,
    )
    label_smoothing: float = proportion(
        0.0,
        "cross_entropy: target of the other class is half of it, and that of the true class 1 "
        "minus that",
    )
    focal_gamma: float = setting(
        2.0, "focal: how strongly well-classified utterances are down-weighted", at_least=0
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
        0.0, "epochs over which the margin rises from 0, step by step", at_least=0
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
class Localisation(KnownNames):
    """Frame scores in addition to the utterance score, for partially spoofed speech."""

    enabled: bool = setting(
        False,
        "True: the network has a frame-level head, trained by the labels of the frames (column "
        "spoofed_s); its back end has to keep time",
    )
    resolution: int | None = setting(
        None,
        "length of a frame, a multiple of the back end's frames, of which means are taken; None: "
        "the back end's frames",
        unit="samples",
        at_least=1,
        at_most=MAX_CLIP_SAMPLES,
    )
    weight: float = setting(
        1.0, "factor of the frames' loss next to that of the utterance", above=0
    )
    class_weights: tuple[float, float] = setting(
        (1.0, 1.0), "weights of (spoofed, bona fide) frames in their loss", above=0
    )


SOURCE_HEADS = {
    "linear": "asdf.networks.LinearClassHead",
    "cosine": "asdf.networks.CosineClassHead",
}


@dataclass
class Source(KnownNames):
    """Source tracing: classes of a column of the trial list, learnt in addition to detection."""

    column: str | None = setting(
        None,
        "column of the trial list whose values are the classes, such as 'attack', 'vocoder' or "
        "'language'; None: no source tracing",
    )
    classes: tuple[str, ...] | None = setting(
        None,
        "the classes; trials of other values are not learnt from, and unknown when they are "
        "scored; None: all values of the training list, sorted",
        check="unique",
    )
    bona_fide: Literal["left_out", "class", "by_column"] = setting(
        "left_out",
        "bona fide trials are 'left_out', a 'class' of their own, or of the class that the column "
        "says, as for languages",
    )
    weight: float = setting(
        1.0,
        "weight of the classes' loss next to that of detection (loss.detection_weight)",
        above=0,
    )
    head: str = setting(
        "linear",
        "what computes the classes from embeddings: a linear layer by cross-entropy; cosines with "
        "a vector per class by additive-margin softmax; or the class path of your own",
        check="class_path",
        names=SOURCE_HEADS,
    )
    scale: float = setting(32.0, "cosine: factor of the cosines", above=0)
    margin: float = setting(
        0.2,
        "cosine: subtracted from the cosine of the true class in training",
        at_least=0,
        at_most=2,
    )
