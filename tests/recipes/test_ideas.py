"""Ideas of recent papers train ten steps from an empty folder: files of a user's own, or lines.

The files are those of docs, of recipes/ideas and of tests/ideas; nothing in the package is changed
for them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.distributed.test_exactness import step_losses
from tests.steps_shown import shown_files

IDEAS = ROOT / "tests" / "ideas"
STEPS = 10
OWN = """
own < debug
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'log_mel'
front_end.architecture = 'tiny'
back_end.back_end_class = 'asp'
network.max_steps = 10
network.max_epochs = 4
network.print_interval = 1
network.max_evaluation_utterance_length_in_samples = 64600
recipe.end_stage = 1
"""
CONFIGS = {
    "contrastive": "network.loss = 'idea_contrastive.Contrastive'\ncontrastive.temperature = 0.2",
    "leaf": "front_end.front_end_class = 'idea_leaf.LeafFrontEnd'\nleaf.filters = 16",
    "attention": "back_end.back_end_class = 'idea_attention.OverTime'\nattention.heads = 2",
    "turns": "recipe.sampler = 'idea_turns.ByAttack'\nturns.power = 0.3",
    "codec": "augmentation.chain = ('idea_codec.External',)\nexternal.probability = 0.3",
    "measures": "network.validation_metric = 'idea_measures.found_at_one_percent'\n"
    "network.callbacks = ('idea_measures.Losses',)\nnetwork.schedule = 'idea_measures.noam'",
    "branches": "network.network_class = 'idea_branches.TwoBranches'\n"
    "front_end.front_end_class = None\nback_end.back_end_class = None",
    "reversed": "network.tasks = ('forget_speakers.Speakers',)",
    "two heads": "network.tasks = ('forget_speakers.Speakers',)\nsource.column = 'attack'",
    "taught": "network.tasks = ('distillation.Taught',)\n"
    "taught.network = 'output/teacher/networks/epoch.2.step.10.pt'",
    "sam": "network.training_step = 'my_sam.SAM'\nsam.rho = 0.1",
    "adaptive sam": "network.training_step = 'my_sam.SAM'\nsam.adaptive = True\n"
    "network.optimizer_step_interval = 2",
    "pretraining": "recipe.training_sets = ('calls',)\nrecipe.validation_sets = ()\n"
    "network.network_class = 'idea_noisy.Filling'\nfront_end.front_end_class = None\n"
    "back_end.back_end_class = None\nnetwork.training_step = 'idea_noisy.FillIn'",
    "fine-tuning": "front_end.front_end_class = 'idea_noisy.Pretrained'\n"
    "front_end.weights = 'output/pretraining/networks/epoch.2.step.10.pt'",
    "44.1 kHz": "network.network_class = 'my_singing.Singing'\nfront_end.front_end_class = None\n"
    "back_end.back_end_class = None\naudio.sample_rate = 44100\nnetwork.train_clip_size = 22050\n"
    "network.min_evaluation_utterance_length_in_samples = 22050",
    "lengths": "network.network_class = 'my_varying.Varying'\nfront_end.front_end_class = None\n"
    "back_end.back_end_class = None\nlengths.minibatch_s = 4\nlengths.min_crop_s = 0.6\n"
    "lengths.max_crop_s = 1",
}
FIRST = {"taught": "attention", "fine-tuning": "pretraining"}


@pytest.fixture
def mine(recipe, corpus):
    for path in IDEAS.glob("idea_*.py"):
        shutil.copy(path, recipe.folder)
    for name, code in shown_files().items():
        (recipe.folder / f"{name}.py").write_text(code)
    blocks = [OWN]
    for name, lines in CONFIGS.items():
        config = name.replace(" ", "-")
        blocks.append(f"{config} < own\n{lines}\npaths.system_folder = '{config}'\n")
    recipe.add_configs("\n".join(blocks))
    names = [line.split()[0] for line in (corpus / "train_list.txt").read_text().splitlines()]
    (recipe.folder / "calls.txt").write_text("\n".join(names) + "\n")
    run = (recipe.folder / "run.py").read_text()
    entry = f'    "calls": Corpus({str(recipe.folder / "calls.txt")!r}, unlabelled=True),\n'
    (recipe.folder / "run.py").write_text(run.replace("CORPORA = {\n", "CORPORA = {\n" + entry))
    return recipe


@pytest.mark.slow
@pytest.mark.parametrize("idea", CONFIGS)
def test_an_idea_is_a_file_and_a_few_lines(mine, capsys, idea):
    first = FIRST.get(idea)
    if first:
        words = ("paths.system_folder=teacher",) if idea == "taught" else ()
        mine.call(capsys, first, *words).ok()
    config = idea.replace(" ", "-")
    mine.call(capsys, config, "--dry-run").ok()
    mine.call(capsys, config).ok()
    losses = step_losses(Path(mine.system(config)))
    assert list(losses) == list(range(1, STEPS + 1))
