"""Sections of a run as a whole: folders, processes and devices, stages and corpora, trackers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.fields import MAX_THREADS, setting
from asdf.settings.mistakes import KnownNames


@dataclass
class Paths(KnownNames):
    """Folders of input and output."""

    output_folder: str | None = setting(None, check="path")
    """all outputs of the recipe are written below it"""
    database_folder: str | None = setting(None, check="path")
    """the folder that holds the corpora"""
    system_folder: str = setting("system1", check="path")
    """folder of one system, relative to output_folder: networks, scores, results"""
    sad_folder: str = setting("sad", check="path")
    """folder of measured utterance lengths, relative to output_folder"""


@dataclass
class Computing(KnownNames):
    """Devices, processes and numerics of the run."""

    use_gpu: bool | Literal["required"] = True
    """True: a GPU if there is one; 'required': the run ends if there is none; False: the CPU, even
    if there is a GPU"""
    gpu_ids: tuple[int, ...] | None = setting(None, at_least=0, check="unique")
    """which GPUs: the process of local rank i uses gpu_ids[i]; None: the first ones"""
    processes: int = setting(1, at_least=1)
    """processes that run.py starts when it was started as a single one"""
    backend: Literal["auto", "nccl", "gloo", "mpi"] = "auto"
    """how processes communicate; auto: nccl on GPUs, gloo on the CPU"""
    timeout_s: float = setting(1800.0, unit="s", above=0)
    """a process that waits longer than this for another, or for 0.9 of it for a recording to be
    read, ends the run"""
    sync_batch_norm: bool = True
    """in training, batch norm over the minibatches of all processes together"""
    threads: int | None = setting(None, at_least=1, at_most=MAX_THREADS)
    """CPU threads per process; None: 1 on a GPU, else the cores divided among this node's
    processes"""
    network_dataloader_workers: int = setting(10, at_least=0)
    """loader processes per process; at most as many as it has cores, two fewer on a GPU; 0: none"""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """precision of training; auto: bf16 if the GPU computes in it, fp16 on compute capability 7.x,
    else fp32; for scoring see scoring_precision"""
    tf32: bool = False
    """allow TF32 products in training on a GPU (faster, about 3 digits)"""
    norms: Literal["fp32", "bf16"] = "fp32"
    """with bf16 in training, what the norms of wav2vec 2.0, HuBERT and WavLM are computed in; bf16:
    GELU and the sums between layers follow, and a third fewer bytes are moved on a GPU"""
    # auto is TF32 since fp32 takes several times as long on a GPU, and no error rate differed.
    scoring_precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    """precision of validation and of stage 2; auto: tf32 on GPUs that have it, from A100 on, else
    fp32; tf32, bf16: several times faster there, bf16 also on CPUs with AVX512_BF16 or AMX, with
    scores of about 3 and 2 digits; reports name it; `asdf.Detector` has its own `precision`"""
    scoring_engine: Literal["packed", "plain"] = "packed"
    """how validation and stage 2 compute on a CPU; packed: with weights laid out for it, faster,
    with scores within 1e-5; plain: as in training; `asdf.Detector` has its own `engine`"""
    compile: bool | Literal["layers"] = False
    """compile the network for training: faster steps after a first one of minutes; layers: the
    encoder's layers of wav2vec 2.0, HuBERT and WavLM alone, which takes seconds; scoring is not
    compiled"""
    deterministic: bool = False
    """only deterministic algorithms: on a GPU, too, a resumed run is bit-identical to an
    uninterrupted one"""
    cuda_graphs: bool | Literal["auto"] = "auto"
    """capture the passes over a minibatch and replay them, so that a step is a few launches instead
    of thousands; not with masks or layer_drop; takes as much memory again as a step; ignored on the
    CPU; auto: where it can be captured, the GPU has room for it, and batch norm does not exchange
    statistics between processes; the numbers are the same"""
    profile_steps: tuple[int, int] | None = setting(None, at_least=1)
    """optimiser steps (first, last) whose profile is written to profile/ in the system folder"""


SAMPLERS = {
    "shuffled": "asdf.data.samplers.Shuffled",
    "balanced_classes": "asdf.data.samplers.BalancedClasses",
    "balanced_attacks": "asdf.data.samplers.BalancedAttacks",
    "balanced_corpora": "asdf.data.samplers.BalancedCorpora",
    "weighted_corpora": "asdf.data.samplers.WeightedCorpora",
}


@dataclass
class Recipe(KnownNames):
    """Stages to run, and their corpora."""

    start_stage: int = setting(0, at_least=0)
    """first stage to run"""
    end_stage: int = setting(100, at_least=0)
    """last stage to run"""
    selected_epochs: tuple[int | Literal["best", "average", "last"], ...] | None = setting(
        None, check="unique"
    )
    """epochs to evaluate: numbers, 'best', 'average', 'last'; None: the last one"""
    training_sets: tuple[str, ...] = setting(("asvspoof19",), check="unique")
    """names of corpora known to the recipe"""
    validation_sets: tuple[str, ...] | None = setting(None, check="unique")
    """scored during training; the first one decides which epoch is best; None: the
    evaluation_sets"""
    evaluation_sets: tuple[str, ...] = setting(
        ("asvspoof19-dev", "asvspoof19-eval"), check="unique"
    )
    """names of corpora known to the recipe"""
    leave_out: tuple[str, ...] | None = None
    """a column and values, such as ('attack', 'A07', 'A08'): they are left out of training, and
    validation is restricted to them; evaluation sets stay whole"""
    leave_out_speakers: tuple[str, ...] = setting((), check="unique")
    """speakers that are left out of training as well; validation then has their bona fide trials,
    and of the spoofs those by them or by voices without bona fide utterances in training"""
    evaluate_left_out: bool = False
    """restrict the evaluation sets to what is left out, less what is trained on, and validation to
    the rest; an evaluation set may then be a training set"""
    sampler: str = setting("shuffled", check="class_path", names=SAMPLERS)
    """the turns of training utterances in an epoch; shuffled: each has one; balanced: classes,
    attacks (bona fide: half of the turns) or training sets have as many turns as each other"""
    set_weights: tuple[float, ...] | None = setting(None, above=0)
    """sampler weighted_corpora: a weight per training set, to which its turns are proportional"""
    check_recordings: bool | Literal["once"] = True
    """stage 0 decodes every training recording to its end once, so that a damaged one is found
    before training; later starts compare the size and time of every file with those of then, or
    with 'once' of 64 of them"""
    seed: int = setting(0, at_least=0, at_most=2**32 - 1)
    """seed of all random numbers of a run"""

    @property
    def validated_sets(self) -> tuple[str, ...]:
        """The names of the corpora that are scored during training."""
        return self.evaluation_sets if self.validation_sets is None else self.validation_sets

    def execute_stage(self, stage: int) -> bool:
        """Whether `stage` is among those to run."""
        return self.start_stage <= stage <= self.end_stage
