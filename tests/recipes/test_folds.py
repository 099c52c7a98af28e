"""Folds of a real launch: what each trains on, and a table whose digits are those of the scores."""

import json
import re

import numpy as np
import pytest

from asdf.evaluation import eer, read_scores
from asdf.trials.table import read_trials
from tests.recipes.voices import make_voices, trials_of

CONFIG = """
folded < debug
paths.system_folder = 'folded'
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'spectrogram'
back_end.back_end_class = 'asp'
network.max_epochs = 1
recipe.selected_epochs = ('best',)
"""
FOLDS = {"attack_A01_A02-fold1of2": ("A01", "A02"), "attack_A03-fold2of2": ("A03",)}


def eers_of(system, values) -> dict[str, float]:
    """Return the EER of each attack against all bona fide trials of the run's score file."""
    [row] = json.loads((system / "results" / "results.json").read_text())
    scores = read_scores(system / "scores" / row["epoch"] / f"{row['set']}.txt")
    trials = read_trials(system / "trials" / f"{row['set']}.tsv")
    attacks = np.array([trials.columns["attack"][trials.index_of(i)] for i in scores.ids])
    assert set(attacks) == {"-", *values}
    spoofs = {value: scores.scores[attacks == value] for value in values}
    return {value: eer(scores.bona_fide, of_attack)[0] for value, of_attack in spoofs.items()}


@pytest.mark.slow
def test_every_attack_is_left_out_and_scored_once_per_seed(recipe, corpus, tmp_path):
    recipe.add_configs(CONFIG)
    folder = make_voices(corpus, tmp_path / "voices")
    page, table = tmp_path / "page.html", tmp_path / "table.tex"
    words = ("launch", str(recipe.folder / "run.py"), "folded", "--folds", "attack:2")
    words += ("--seeds", "0-1", "--slots", "1", f"paths.database_folder={folder}")
    command = [recipe.python(), "-m", "asdf", *words]
    outcome = recipe.run_command([*command, "--report", str(page), "--latex", str(table)]).ok()
    assert "4 runs: 1 config x 2 folds x 2 seeds" in outcome.output

    eers: dict[str, list[float]] = {}
    scored = []
    for fold, values in FOLDS.items():
        for seed in (0, 1):
            system = recipe.system(f"folded-{fold}-seed{seed}")
            for value, rate in eers_of(system, values).items():
                eers.setdefault(value, []).append(rate)
        [path] = (system / "scores").glob("*/demo-train*.txt")
        scored += [re.split(r"[/.]", name)[-2] for name in read_scores(path).ids]
    # Each genuine utterance and each spoof but the copies of the other fold's speaker, once.
    assert len(scored) == len(set(scored))
    genuine = []
    for part in ("train", "dev"):
        genuine += [trial[1] for trial in trials_of(folder, part) if trial[2] == "-"]
    assert set(genuine) <= set(scored)

    means = {value: 100 * np.mean(rates) for value, rates in eers.items()}
    of_seeds = 100 * np.mean(list(eers.values()), axis=0)
    worst = max(means, key=lambda value: means[value])
    cells = [f"{means[value]:.2f}" for value in ("A01", "A02", "A03")]
    mean = f"{of_seeds.mean():.2f} ± {of_seeds.std(ddof=1):.2f}"
    row = ["folded", "2", *mean.split(), f"{means[worst]:.2f}", f"({worst})", *cells]
    assert row in [line.split() for line in outcome.output.splitlines()]
    # The table by set, whose rows would each have a set of their own, is not shown.
    assert "\nconfig " not in outcome.output
    assert "with the best epoch by the rest of the validation sets" in outcome.output
    html = page.read_text()
    assert 'id="left-out"' in html and mean in html and all(cell in html for cell in cells)
    latex = table.read_text()
    expected = [mean.replace("±", r"$\pm$"), f"{means[worst]:.2f} ({worst})", *cells[:2]]
    assert f"folded & 2 & {' & '.join(expected)}" in latex
    assert "demo-train+demo-dev" not in latex

    # The same command again has nothing to run, and shows the table.
    again = recipe.run_command(command).ok()
    assert row in [line.split() for line in again.output.splitlines()]
