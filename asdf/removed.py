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
    "recipe.shuffle_shards": Removed(64, "All recordings of the list are shuffled."),
}
"""Settings by their full names."""

CLASSES: dict[str, str] = {
    "mlflow": _MLFLOW,
    "asdf.training.trackers.MLflow": _MLFLOW,
    "asdf.networks.CosinePairNetwork": "docs/your_own.md has a network that takes references.",
    "asdf.networks.MLPPairNetwork": "docs/your_own.md has a network that takes references.",
    "asdf.networks.AudioLanguageModel": _LANGUAGE_MODEL,
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
    "pack": "webdataset, lhotse and datasets write what `score` and recipes read: docs/shards.md.",
}
"""What to use instead of a command, by its name."""

OPTIONS: dict[str, str] = {
    "fuse --seed": "Folds follow from the trials alone.",
    "robustness --seed": "Draws follow from the recordings alone.",
    "doctor --folder": "Change to the folder: the doctor checks the working one.",
    "launch --search": _SEARCH,
    "launch --trials": _SEARCH,
    "launch --storage": _SEARCH,
    "launch --objective": _SEARCH,
    "launch --pruner": _SEARCH,
    "doctor --wait": "Its checks print their findings as they arrive; Ctrl-C ends one that hangs.",
    "score --reference": "A list names references in its column `reference`.",
    "sasv --p-target": "Give --costs p_target=X.",
    "sasv --p-nontarget": "Give --costs p_nontarget=X.",
    "sasv --p-spoof": "Give --costs p_spoof=X.",
    "sasv --cost-miss": "Give --costs cost_miss=X.",
    "sasv --cost-fa": "Give --costs cost_fa=X.",
    "sasv --cost-spoof": "Give --costs cost_spoof=X.",
    "sasv --cm": "Give the CM scores as the score file, next to --asv-scores.",
    "sasv --on-cm": "Give --on CM,ASV.",
    "sasv --on-asv": "Give --on CM,ASV.",
    "embed --by": "`embed` writes the vectors; matplotlib and sklearn draw them.",
    "embed --method": "`embed` writes the vectors; matplotlib and sklearn draw them.",
    "embed --picture": "`embed` writes the vectors; matplotlib and sklearn draw them.",
    "report --by": "It was for --embeddings; matplotlib and sklearn draw what `embed` writes.",
    "report --embeddings": "matplotlib and sklearn draw what `embed` writes.",
    "report --method": "It was for --embeddings; matplotlib and sklearn draw what `embed` writes.",
    "score --diarise": "Give the turns of a diariser with --rttm.",
    "score --diariser": "Give the turns of a diariser with --rttm.",
    "score --ray": "docs/cluster.md maps a detector over Ray Data.",
    "score --ray-address": "docs/cluster.md maps a detector over Ray Data.",
    "embed --part": "One command, with --processes or torchrun, computes all of a list.",
    "embed --merge": "One command, with --processes or torchrun, computes all of a list.",
    "embed --slurm": "sbatch starts the command, with --processes or srun.",
    "embed --max-running": "sbatch starts the command, with --processes or srun.",
    "embed --dry-run": "It only printed what --slurm would submit.",
    "embed --ray": "docs/cluster.md maps a detector over Ray Data.",
    "embed --ray-address": "docs/cluster.md maps a detector over Ray Data.",
    "robustness --benchmark": "Name its grades with --only and --grades: docs/robustness.md.",
    "robustness --part": "One command measures all conditions; --only chooses some.",
    "robustness --merge": "One command measures all conditions; --only chooses some.",
    "robustness --slurm": "sbatch starts the command; --only chooses conditions.",
    "robustness --max-running": "sbatch starts the command; --only chooses conditions.",
    "robustness --dry-run": "It only printed what --slurm would submit.",
    "robustness --ray": "--only chooses conditions for a command on each machine.",
    "robustness --ray-address": "--only chooses conditions for a command on each machine.",
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
    "case --pdf": "Print the page from a browser: docs/case.md has a line for Chromium.",
    "case --watermarks": "The packages audioseal, resemble-perth and silentcipher find their own.",
    "serve --audio-rate": "Limit requests in the proxy: docs/service.md.",
    "serve --audit": "Store the answers: each has the digests, the verdict and the date.",
    "serve --call-s": "Score streams with asdf.Detector.stream.",
    "serve --calls": "Score streams with asdf.Detector.stream.",
    "serve --client-connections": "Limit connections in the proxy: docs/service.md.",
    "serve --connections": "There are 256; limit those of a client in the proxy: docs/service.md.",
    "serve --engine": "It is packed on a CPU.",
    "serve --full-length": "Import it with network.max_evaluation_utterance_length_in_samples.",
    "serve --head-s": "It is 10.",
    "serve --precision": "It is that of the device.",
    "serve --proxy": "Limit requests in the proxy: docs/service.md.",
    "serve --rate": "Limit requests in the proxy: docs/service.md.",
    "serve --readers": "There are 2.",
    "serve --request-s": "It is 120.",
    "serve --stop-s": "It is 30.",
    "serve --upload-s": "It is 60.",
    "serve --watermarks": "The packages audioseal, resemble-perth and silentcipher find their own.",
}
"""What to use instead of an option, by command and option: 'score --option'."""

OTHERS: dict[str, str] = {
    "compute_setup gpu_mode data_parallel_backend distributed_launch strategy multi_gpu ddp "
    "num_gpus n_gpus ngpu gpus devices nprocs nproc_per_node num_processes world_size": (
        "computing.processes=2, or torchrun --nproc_per_node=2 run.py CONFIG"
    ),
    "dist_backend distributed_backend ddp_backend": "computing.backend='nccl'",
    "nnodes num_nodes num_machines node_rank": "torchrun --nnodes=2 ... run.py CONFIG, or srun",
    "no_cuda use_cpu cpu device accelerator cuda": "computing.use_gpu=False for the CPU",
    "gpu gpu_id device_ids cuda_device": "computing.gpu_ids=(0,)",
    "num_workers dataloader_num_workers": "computing.network_dataloader_workers=8",
    "fp16 bf16 half amp use_amp mixed_precision dtype": "computing.precision='bf16' or 'fp16'",
    "torch_compile": "computing.compile=True",
    "per_device_train_batch_size train_batch_size batch_size": "network.minibatch_size=16",
    "per_device_eval_batch_size eval_batch_size": "network.eval_minibatch_size_factor=2",
    "gradient_accumulation_steps accumulate_grad_batches accum_grad": (
        "network.optimizer_step_interval=4"
    ),
    "learning_rate lr": "network.initial_learning_rate=1e-5, and front_end.learning_rate=1e-6",
    "lr_scheduler_type lr_scheduler scheduler": "network.schedule='cosine'",
    "warmup_ratio warmup_epochs warmup": "network.warmup_steps=500",
    "optim": "network.optimizer='adamw'",
    "max_grad_norm gradient_clip_val grad_clip": "network.gradient_clip_norm=1.0",
    "num_train_epochs num_epochs n_epochs epochs": "network.max_epochs=20",
    "logging_steps log_interval log_every_n_steps": "network.print_interval=10",
    "eval_strategy evaluation_strategy eval_steps": "network.evaluation_interval_steps=500",
    "save_strategy save_steps": "network.checkpoint_interval_steps=500",
    "save_total_limit save_top_k": "network.keep_best_networks=3 network.keep_last_networks=1",
    "load_best_model_at_end": "recipe.selected_epochs=('best',)",
    "metric_for_best_model monitor": "network.validation_metric='eer'",
    "early_stopping_patience patience": "network.early_stop_evaluations=10",
    "freeze_feature_encoder freeze freeze_ssl": "front_end.frozen=True",
    "model_name_or_path pretrained ssl_path": "front_end.weights='xlsr2_300m.pt'",
    "resume_from_checkpoint resume": "network.resume_epoch='auto', which is the default",
    "model_path ckpt_path": "network.initial_network='net.pt'",
    "output_dir save_dir exp_dir default_root_dir": "paths.output_folder='FOLDER'",
    "run_name exp_name comment": "paths.system_folder='NAME'",
    "database_path data_dir data_path": "paths.database_folder='FOLDER'",
    "report_to": "network.callbacks=('tensorboard',)",
    "push_to_hub hub_model_id": "python -m asdf export NETWORK --push ORG/NAME",
}
"""What to write here instead of words of other frameworks' settings and options."""


def setting_has_left(name: str) -> str:
    """Return the sentences about a setting; '' if it is not one that has left."""
    return f"{name} has left ASDF. {SETTINGS[name].why}" if name in SETTINGS else ""


def class_has_left(path: str) -> str:
    """Return the sentences about a class; '' if it is not one that has left."""
    return f"{path} has left ASDF. {CLASSES[path]}" if path in CLASSES else ""


def option_has_left(command: str, arguments: list[str]) -> str:
    """Return the sentences about the first of the arguments that is an option that has left."""
    for argument in arguments:
        name = f"{command} {argument.partition('=')[0]}"
        if name in OPTIONS:
            return f"{name} has left ASDF. {OPTIONS[name]}"
    return ""


def ours_for(word: str) -> str:
    """Return what to write here instead of a word of other frameworks; '' if it is none."""
    name = word.lstrip("-").replace("-", "_").lower()
    return next((ours for words, ours in OTHERS.items() if name in words.split()), "")
