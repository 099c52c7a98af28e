"""Sections of a run as a whole: folders, processes and devices, stages and corpora, trackers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import MAX_PROCESSES, setting


@dataclass
class Paths(KnownNames):
    """Folders of input and output."""

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
    """Devices, processes and numerics of the run."""

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
        at_most=MAX_PROCESSES - 1,  # counted from 0
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
        "a process that waits longer than this for another, or for 0.9 of it for a recording to be "
        "read, ends the run",
        unit="s",
        above=0,
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
    norms: Literal["fp32", "bf16"] = setting(
        "fp32",
        "with bf16 in training, what the norms of wav2vec 2.0, HuBERT and WavLM are computed in; "
        "bf16: GELU and the sums between layers follow, and a third fewer bytes are moved on a GPU",
    )
    # auto is TF32 since fp32 takes several times as long on a GPU, and no error rate differed.
    scoring_precision: Literal["auto", "fp32", "tf32", "bf16"] = setting(
        "auto",
        "precision of validation and of stage 2; auto: tf32 on GPUs that have it, from A100 on, "
        "else fp32; tf32, bf16: several times faster there, bf16 also on CPUs with AVX512_BF16 or "
        "AMX, with scores of about 3 and 2 digits; reports name it; `asdf.Detector` has its own "
        "`precision`",
    )
    scoring_engine: Literal["packed", "plain"] = setting(
        "packed",
        "how validation and stage 2 compute on a CPU; packed: with weights laid out for "
        "it, faster, with scores within 1e-5; plain: as in training; `asdf.Detector` has its own "
        "`engine`",
    )
    compile: bool | Literal["layers"] = setting(
        False,
        "compile the network for training: faster steps after a first one of minutes; layers: the "
        "encoder's layers of wav2vec 2.0, HuBERT and WavLM alone, which takes seconds; scoring is "
        "not compiled",
    )
    deterministic: bool = setting(
        False,
        "only deterministic algorithms: on a GPU, too, a resumed run is bit-identical to an "
        "uninterrupted one",
    )
    cuda_graphs: bool | Literal["auto"] = setting(
        "auto",
        "capture the passes over a minibatch and replay them, so that a step is a few launches "
        "instead of thousands; one process with a GPU; not with masks or layer_drop; takes as much "
        "memory again as a step; ignored on the CPU; auto: for networks and losses of ASDF, where "
        "the GPU has room for it; the numbers are the same",
    )
    profile_steps: tuple[int, int] | None = setting(
        None,
        "optimiser steps (first, last) whose profile is written to profile/ in the system folder",
        at_least=1,
    )


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

    start_stage: int = setting(0, "first stage to run", at_least=0)
    end_stage: int = setting(100, "last stage to run", at_least=0)
    selected_epochs: tuple[int | Literal["best", "average", "last"], ...] | None = setting(
        None,
        "epochs to evaluate: numbers, 'best', 'average', 'last'; None: the last one",
        check="unique",
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
        "a column and values, such as ('attack', 'A07', 'A08'): they are left out of training, and "
        "validation is restricted to them; evaluation sets stay whole",
    )
    leave_out_speakers: tuple[str, ...] = setting(
        (),
        "speakers that are left out of training as well; validation then has their bona fide "
        "trials, and of the spoofs those by them or by voices without bona fide utterances in "
        "training",
        check="unique",
    )
    evaluate_left_out: bool = setting(
        False,
        "restrict the evaluation sets to what is left out, less what is trained on, and validation "
        "to the rest; an evaluation set may then be a training set",
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
    check_recordings: bool | Literal["once"] = setting(
        True,
        "stage 0 decodes every training recording to its end once, so that a damaged one is found "
        "before training; later starts compare the size and time of every file with those of then, "
        "or with 'once' of 64 of them",
    )
    seed: int = setting(0, "seed of all random numbers of a run", at_least=0, at_most=2**32 - 1)

    @property
    def validated_sets(self) -> tuple[str, ...]:
        """The names of the corpora that are scored during training."""
        return self.evaluation_sets if self.validation_sets is None else self.validation_sets

    def execute_stage(self, stage: int) -> bool:
        """Whether `stage` is among those to run."""
        return self.start_stage <= stage <= self.end_stage
