"""Names that have left ASDF, or are other frameworks', one line each: what users get to read.

Configs with such a name are refused, unless it has the value that changed nothing. Network files
and run folders that name one score as before; a setting that had a part in scoring is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ANY: Any = object()
"""Default of a setting that only a class which has left as well has read."""


@dataclass(frozen=True)
class Removed:
    """A setting that has left.

    Attributes:
        default: Value with which the setting changed nothing; ANY: files may have any.
        why: Sentence with what to do or to use instead.
        scores: Whether it had a part in scoring.
    """

    default: Any
    why: str
    scores: bool = False


_LANGUAGE_MODEL = "docs/your_own.md has a language model as a network of one's own."
_ADDED = "Use lora, or a front end of your own."
_TEACHER = "docs/your_own.md has a teacher as a task of one's own."
_ROBUSTNESS = "The command `robustness` measures a run on any list."
_MLFLOW = "Choose 'tensorboard' or 'wandb', or a callback of your own (docs/your_own.md)."
_SEARCH = "docs/launch.md has a script in which Optuna calls run.py."
_PARTS = "Set augmentation.probability, which several parts share."
_DDP = "Networks are trained with DDP."

SETTINGS: dict[str, Removed] = {
    "tracking.mlflow_uri": Removed(None, _MLFLOW),
    "tracking.project": Removed("asdf", "Set the variable WANDB_PROJECT."),
    "tracking.name": Removed(None, "Set the variable WANDB_NAME."),
    "tracking.offline": Removed(False, "Set the variable WANDB_MODE=offline."),
    "computing.main_timeout_s": Removed(None, "Set computing.timeout_s."),
    "network.callback_failures_end_training": Removed(False, "A failure is logged."),
    "computing.shard_network": Removed(False, _DDP),
    "computing.shard_group": Removed(None, _DDP),
    "computing.shard_checkpoints": Removed(False, _DDP),
    "computing.gradient_compression": Removed(None, "Gradients travel in float32."),
    "computing.gpu_memory_gib": Removed(None, "On a GPU, --dry-run prints the memory of a step."),
    "computing.hang_report_s": Removed(120.0, "NCCL's flight recorder: docs/cluster.md."),
    "language_model.prompt": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.bona_fide_answer": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.spoof_answer": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.end": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.pooling": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.text_column": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.text_weight": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.text_tokens": Removed(ANY, _LANGUAGE_MODEL),
    "language_model.rationale_tokens": Removed(ANY, _LANGUAGE_MODEL),
    "distillation.teacher": Removed(None, _TEACHER),
    "distillation.score_weight": Removed(1.0, _TEACHER),
    "distillation.embedding_weight": Removed(0.0, _TEACHER),
    "distillation.temperature": Removed(2.0, _TEACHER),
    "lora.decomposed": Removed(False, "LoRA has no magnitudes of its own.", scores=True),
    "adapter.width": Removed(0, _ADDED, scores=True),
    "adapter.positions": Removed(ANY, _ADDED),
    "prompt.tokens": Removed(0, _ADDED, scores=True),
    "prompt.wavelet_tokens": Removed(0, _ADDED, scores=True),
    "prompt.dropout": Removed(ANY, _ADDED),
    "network.keep_every_epochs": Removed(None, "Use keep_last_networks or keep_best_networks."),
    "network.rate_test_steps": Removed(None, "Compare rates with `launch --sweep`."),
    "network.restart_epochs": Removed(10, "Write the schedule as a function of your own."),
    "network.restart_growth": Removed(1, "Write the schedule as a function of your own."),
    "robustness.sets": Removed((), _ROBUSTNESS),
    "robustness.only": Removed((), _ROBUSTNESS),
    "robustness.max_trials": Removed(500, _ROBUSTNESS),
    "robustness.workers": Removed(2, _ROBUSTNESS),
    "vocoding.envelope_coefficients": Removed(41, "It is 41."),
    "vocoding.griffin_lim_rounds": Removed(16, "There are 16."),
    "vocoding.lpc_order": Removed(20, "It is 20."),
    "vocoding.mel_bands": Removed(80, "There are 80."),
    "paths.cache_folder": Removed(None, "Mount the store: docs/cluster.md."),
    "computing.cache_gb": Removed(100.0, "Mount the store: docs/cluster.md."),
    "computing.reading_threads": Removed("auto", "Set computing.network_dataloader_workers."),
    "augmentation.silence_probability": Removed(0.5, _PARTS),
    "augmentation.bandwidth_probability": Removed(0.5, _PARTS),
    "augmentation.frequency_mask_probability": Removed(0.5, _PARTS),
    "augmentation.time_mask_probability": Removed(0.5, _PARTS),
    "augmentation.frequency_mask_count": Removed(2, "There are 2."),
    "augmentation.time_mask_count": Removed(2, "There are 2."),
    "augmentation.silence_threshold_db": Removed(40.0, "It is 40."),
    "augmentation.bandwidth_min_hz": Removed(3400.0, "It is 3400."),
    "augmentation.bandwidth_max_hz": Removed(7500.0, "It is 7500."),
    "augmentation.mixup_alpha": Removed(0.4, "It is 0.4."),
    "loss.easy_margin": Removed(False, "The margin counts at all angles."),
    "recipe.shuffle_shards": Removed(64, "All recordings of the list are shuffled."),
}
"""Settings by their full names."""

CLASSES: dict[str, str] = {
    "mlflow": _MLFLOW,
    "asdf.training.callbacks.MLflow": _MLFLOW,
    "asdf.networks.CosinePairNetwork": "docs/your_own.md has a network that takes references.",
    "asdf.networks.MLPPairNetwork": "docs/your_own.md has a network that takes references.",
    "asdf.networks.AudioLanguageModel": _LANGUAGE_MODEL,
    "asdf.src.networks.architectures2.DefaultNetwork": "recipes/ideas/default_network.py has it.",
    "asdf.metrics.validation.MinDCF": "Choose 'min_dcf'.",
    "asdf.metrics.validation.ActDCF": "Choose 'act_dcf'.",
    "asdf.metrics.validation.Cllr": "Choose 'cllr'.",
    "asdf.metrics.validation.MinCllr": "Choose 'min_cllr'.",
    "cosine_restarts": "Write the schedule as a function of your own.",
    "sharded": "Choose 'shuffled' or 'weighted_corpora', which read tars in any order.",
    "sharded_classes": "Choose 'balanced_classes', which reads tars in any order.",
    "sharded_attacks": "Choose 'balanced_attacks', which reads tars in any order.",
    "asdf.data.sharded_samplers.ShardedGroups": "Derive from asdf.data.samplers.GroupedSampler.",
    "asdf.data.sharded_samplers.Sharded": "Choose 'shuffled' or 'weighted_corpora'.",
}
"""What to use instead of a class, by its class path or short name."""

COMMANDS: dict[str, str] = {
    "networks": "docs/networks.md lists them; --dry-run of a recipe says what one costs.",
    "audit-file": "It checked what `serve --audit` recorded.",
    "adversarial": "docs/your_own.md has PGD as a training step of one's own.",
    "detplot": "`evaluate --plot` draws the same curves.",
    "distance": "`embed` writes the vectors; scipy and sklearn compare them.",
    "prune": "torch-pruning prunes networks; train the result as a network of your own.",
    "panel": "Score a set like your recordings with each detector and `fuse` those that help.",
    "publish": "Use export NETWORK --push ORG/NAME.",
    "pack": "webdataset, lhotse and datasets write what `score` and recipes read: docs/corpora.md.",
}
"""What to use instead of a command, by its name."""

OPTIONS: dict[str, str] = {
    "calibrate --prior --cost-miss --cost-fa": "Give --costs p_spoof=X,cost_miss=X,cost_fa=X.",
    "calibrate --at-eer": "Without --costs, the threshold is where both error rates are equal.",
    "case --column": "Write python -m asdf score NETWORK RECORDING --column CLASS.",
    "case why --engine": "It is packed on a CPU.",
    "case why --precision": "It is that of the device.",
    "embed --engine": "It is packed on a CPU.",
    "embed --threads": "Each process has one: give --processes N.",
    "evaluate sasv --spoof-share": "It follows from --costs.",
    "evaluate --intervals": "LaTeX has those over speakers where they are known; --json has both.",
    "evaluate trace --set": "Name the system after it: NAME=SCORES.",
    "evaluate --threshold-subset": "Give the lines of the subset as --threshold-protocol.",
    "evaluate --tippett --ece --reliability": "Give --ratios OUT, which draws all three.",
    "evaluate trace --column": "The file of source scores names its column.",
    "launch --random-seed": "--random draws the same points whenever it is repeated.",
    "lists --seed": "The split follows from the recordings alone.",
    "new-recipe --list --recipe": "There is one recipe: new-recipe FOLDER copies it.",
    "robustness --list": "Without arguments, it lists all degradations.",
    "evaluate --title": "The caption of a figure says what it is of.",
    "fuse --seed": "Folds follow from the trials alone.",
    "robustness --seed": "Draws follow from the recordings alone.",
    "doctor --folder": "Change to the folder: the doctor checks the working one.",
    "launch --search --trials --storage --objective --pruner": _SEARCH,
    "doctor --wait": "Its checks print their findings as they arrive; Ctrl-C ends one that hangs.",
    "score --reference": "A list names references in its column `reference`.",
    "sasv --p-target --p-nontarget --p-spoof --cost-miss --cost-fa --cost-spoof": (
        "Give --costs with its name and an underscore, such as p_target=X,cost_miss=X."
    ),
    "sasv --cm": "Give the CM scores as the score file, next to --asv-scores.",
    "sasv --on-cm --on-asv": "Give --on CM,ASV.",
    "embed --by --method --picture": "matplotlib and sklearn draw the vectors that `embed` writes.",
    "report --embeddings --by --method": "matplotlib and sklearn draw what `embed` writes.",
    "score --diarise --diariser": "Give the turns of a diariser with --rttm.",
    "score --ray --ray-address": "docs/cluster.md maps a detector over Ray Data.",
    "embed --part --merge": "One command, with --processes or torchrun, computes all of a list.",
    "embed --slurm --max-running": "sbatch starts the command, with --processes or srun.",
    "embed --dry-run": "It only printed what --slurm would submit.",
    "embed --ray --ray-address": "docs/cluster.md maps a detector over Ray Data.",
    "robustness --benchmark": "Name its grades with --only and --grades: docs/robustness.md.",
    "robustness --part --merge": "One command measures all conditions; --only chooses some.",
    "robustness --slurm --max-running": "sbatch starts the command; --only chooses conditions.",
    "robustness --dry-run": "It only printed what --slurm would submit.",
    "robustness --ray --ray-address": "--only chooses conditions for a command on each machine.",
    "score --rationale": "ASDF has no audio language models.",
    "evaluate --audio": "Recall and false alarms do not need durations.",
    "evaluate --cross-test": "Evaluate each pair of sets by itself, or --by a column.",
    "evaluate --html": "--json, --csv and --latex write the results.",
    "score --why": "Write python -m asdf why NETWORK RECORDING -o OUT.",
    "score --why-by": "Write python -m asdf why NETWORK RECORDING -o OUT --by METHOD.",
    "score --why-filler": "Write python -m asdf why NETWORK RECORDING -o OUT --filler FILLER.",
    "score --why-start": "Write python -m asdf why NETWORK RECORDING -o OUT --start S.",
    "why --no-parts": "A map is of one window, whatever its recording's parts.",
    "why --speech-check": "A map is of one window, whether it has speech or not.",
    "export --int8": "ONNX Runtime quantises graphs: onnxruntime.quantization.",
    "export --runtime": "Networks score in Python, or as ONNX graphs.",
    "score --watermarks": "The packages audioseal, resemble-perth and silentcipher find their own.",
    "case --pdf": "Print the page from a browser: docs/judging.md has a line for Chromium.",
    "case --watermarks": "The packages audioseal, resemble-perth and silentcipher find their own.",
    "serve --audio-rate --proxy --rate": "Limit requests in the proxy: docs/service.md.",
    "serve --audit": "Store the answers: each has the digests, the verdict and the date.",
    "serve --call-s --calls": "Score streams with asdf.Detector.stream.",
    "serve --client-connections": "Limit connections in the proxy: docs/service.md.",
    "serve --connections": "There are 256; limit those of a client in the proxy: docs/service.md.",
    "serve --engine": "It is packed on a CPU.",
    "serve --full-length": "Import it with network.max_evaluation_utterance_length_in_samples.",
    "serve --head-s": "It is 10.",
    "serve --precision": "It is that of the device.",
    "serve --readers": "There are 2.",
    "serve --request-s": "It is 120.",
    "serve --stop-s": "It is 30.",
    "serve --upload-s": "It is 300.",
    "serve --watermarks": "The packages audioseal, resemble-perth and silentcipher find their own.",
}
"""What to use instead of options, by commands and options: 'score serve --option --other'."""

OTHERS: dict[str, str] = {
    "compute_setup gpu_mode data_parallel_backend distributed_launch strategy multi_gpu ddp "
    "num_gpus n_gpus ngpu gpus devices nprocs nproc_per_node num_processes world_size": (
        "computing.processes=2, or torchrun --nproc_per_node=2 run.py CONFIG"
    ),
    "dist_backend distributed_backend ddp_backend": "computing.backend='nccl'",
    "no_cuda use_cpu cpu device accelerator cuda": "computing.use_gpu=False for the CPU",
    "gpu gpu_id device_ids": "computing.gpu_ids=(0,)",
    "num_workers dataloader_num_workers": "computing.network_dataloader_workers=8",
    "fp16 bf16 half amp use_amp mixed_precision": "computing.precision='bf16' or 'fp16'",
    "per_device_train_batch_size train_batch_size batch_size": "network.minibatch_size=16",
    "per_device_eval_batch_size eval_batch_size": "network.eval_minibatch_size_factor=2",
    "gradient_accumulation_steps accumulate_grad_batches": "network.optimizer_step_interval=4",
    "learning_rate lr": "network.initial_learning_rate=1e-5, and front_end.learning_rate=1e-6",
    "max_grad_norm gradient_clip_val grad_clip": "network.gradient_clip_norm=1.0",
    "logging_steps log_interval log_every_n_steps": "network.print_interval=10",
    "eval_strategy evaluation_strategy eval_steps": "network.evaluation_interval_steps=500",
    "save_strategy save_steps": "network.checkpoint_interval_steps=500",
    "save_total_limit save_top_k": "network.keep_best_networks=3 network.keep_last_networks=1",
    "load_best_model_at_end": "recipe.selected_epochs=('best',)",
    "metric_for_best_model monitor": "network.validation_metric='eer'",
    "early_stopping_patience patience": "network.early_stop_evaluations=10",
    "freeze_feature_encoder freeze_ssl": "front_end.frozen=True",
    "model_name_or_path pretrained ssl_path": "front_end.weights='xlsr2_300m.pt'",
    "resume_from_checkpoint resume": "network.resume_epoch='auto', which is the default",
    "model_path ckpt_path": "network.initial_network='net.pt'",
    "output_dir save_dir exp_dir": "paths.output_folder='FOLDER'",
    "database_path data_dir data_path": "paths.database_folder='FOLDER'",
    "report_to": "network.callbacks=('tensorboard',)",
    "push_to_hub hub_model_id": "python -m asdf export NETWORK --push ORG/NAME",
}
"""What to write here instead of words of other frameworks that no nearest name explains."""


def setting_has_left(name: str) -> str:
    """Return the sentences about a setting; '' if it is not one that has left."""
    return f"{name} has left ASDF. {SETTINGS[name].why}" if name in SETTINGS else ""


def class_has_left(path: str) -> str:
    """Return the sentences about a class; '' if it is not one that has left."""
    return f"{path} has left ASDF. {CLASSES[path]}" if path in CLASSES else ""


def option_has_left(command: str, arguments: list[str]) -> str:
    """Return the sentences about the first of the arguments that is an option that has left."""
    for option in (argument.partition("=")[0] for argument in arguments):
        for names, why in OPTIONS.items():
            if option.startswith("--") and {command, option} <= set(names.split()):
                return f"{command} {option} has left ASDF. {why}"
    return ""


def ours_for(word: str) -> str:
    """Return what to write here instead of a word of other frameworks; '' if it is none."""
    name = word.lstrip("-").replace("-", "_").lower()
    return next((ours for words, ours in OTHERS.items() if name in words.split()), "")
