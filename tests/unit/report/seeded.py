"""Runs of a few seeds, with the settings that recipes record."""

from pathlib import Path
from typing import Any

import numpy as np

from asdf.evaluation import evaluate, read_scores, write_results, write_scores
from tests.unit.report.folders import make_run


def make_seeded_run(folder: Path, seed: int, *, shift: float = 2.0, **settings: Any) -> Path:
    """Write a run whose scores follow from its seed, and which records its settings.

    Args:
        settings: by name, `__` for the dot: network__max_epochs=3.
    """
    make_run(folder, epochs=(1,), sets=settings.pop("sets", ("dev", "eval")))
    rows = []
    for number, path in enumerate(sorted((folder / "scores" / "epoch.1").glob("*.txt"))):
        trials = read_scores(path)
        drawn = np.random.default_rng([seed, number]).normal(size=len(trials))
        scores = drawn + shift * trials.labels
        write_scores(path, trials.ids, trials.labels, scores.astype(np.float32))
        rows.append(("epoch.1", path.stem, evaluate(read_scores(path))))
    write_results(folder / "results", rows)
    lines = [f"recipe.seed = {seed}  # command line, over 0 (default)\n"]
    lines.append(f"paths.system_folder = {folder.name!r}  # command line\n")
    for name, value in settings.items():
        lines.append(f"{name.replace('__', '.')} = {value!r}  # command line\n")
    with (folder / "settings.py").open("a") as file:
        file.writelines(lines)
    return folder


def make_configurations(base: Path, **shifts: float) -> list[Path]:
    """Write three seeds, scored on `eval`, of each configuration, whose classes are apart so."""
    folders = []
    for name, shift in shifts.items():
        for seed in range(3):
            options = {"shift": shift, "sets": ("eval",), "own__shift": shift}
            folders.append(make_seeded_run(base / f"{name}-seed{seed}", seed, **options))
    return folders
