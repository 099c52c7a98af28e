"""Folders of runs as recipes leave them, small and the same each time."""

import json
from pathlib import Path

import numpy as np

from asdf.evaluation import evaluate, read_scores, write_results, write_scores
from asdf.report import Gathered, gather, runs_in
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

HOSTILE = "</script><b onclick=alert(1)>&\u2028'\"{{data}}"
"""An attack whose name would break a page that does not escape it."""


def gathered_of(*folders: Path, **options) -> Gathered:
    """Return what a report gathers of runs, without intervals."""
    return gather(runs_in(folders), **{"replicates": 0, **options})


def make_run(
    folder: Path,
    *,
    shift: float = 2.0,
    attacks: tuple[str, ...] = ("A01", "A02", "A03"),
    epochs: tuple[int, ...] = (1, 2),
    sets: tuple[str, ...] = ("dev", "eval"),
    clip_size: int = 8000,
) -> Path:
    """Write a run of some epochs whose classes move apart; its report is of the last epoch."""
    rng = np.random.default_rng(len(attacks))
    labels = np.array([1] * 40 + [0] * 60)
    ids = [f"flac/U_{i:03d}.flac" for i in range(100)]
    of_trial = ["-"] * 40 + [attacks[i % len(attacks)] for i in range(60)]
    speakers = [f"S{i % 10}" for i in range(100)]
    codecs = [("none", "opus")[i // 3 % 2] for i in range(100)]
    rows, records = [], []
    for epoch in epochs:
        for name in sets:
            scores = rng.normal(size=100) + labels * shift * epoch / 2
            path = folder / "scores" / f"epoch.{epoch}" / f"{name}.txt"
            write_scores(path, ids, labels, scores.astype(np.float32))
            if epoch == epochs[-1]:
                rows.append((f"epoch.{epoch}", name, evaluate(read_scores(path))))
        at = {"step": 10 * epoch, "epoch": epoch}
        records.append({"kind": "step", **at, "loss": 1 / epoch, "learning_rate": 1e-3 / epoch})
        evaluation = {"kind": "evaluation", **at, "network": f"epoch.{epoch}.pt"}
        evaluation |= {"eer": {"dev": 0.5 / epoch}, "validation_loss": {"dev": 1.5 / epoch}}
        records.append(evaluation)
    for name in sets:
        columns = {"speaker": speakers, "attack": of_trial, "codec": codecs}
        write_trials(folder / "trials" / f"{name}.tsv", TrialList(ids, labels, columns=columns))
    write_results(folder / "results", rows)
    records.append({"kind": "end", "step": 20, "epoch": 2.0, "reason": "network.max_epochs = 2"})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "settings.py").write_text(
        "# Settings of config net\n\n"
        f"network.train_clip_size = {clip_size}  # run_configs.py:3 (net), over 16000 (default)\n"
        "network.max_epochs = 2  # command line, over 1000 (default)\n"
        "network.optimizer = 'sgd'  # default\n"
    )
    record = {
        "started": "2026-01-02T03:04:05+00:00",
        "command": "python run.py net",
        "host": "node<1>",
        "python": "3.11.7",
        "versions": {"asdf-antispoofing": "0.1.0", "torch": "2.9.0"},
        "git": {"commit": "0123456789abcdef", "branch": "main", "changed": ["M a.py"]},
        "devices": ["rank 0 of 1: device cpu"],
    }
    (folder / "environment.json").write_text(json.dumps([record]))
    return folder
