"""Recordings without labels: trained on by the steps that take them, refused by name elsewhere."""

import re

import pytest
import torch

from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError
from asdf.recipe import Corpus
from asdf.trials.lists import read_list
from asdf.trials.trial_list import UNLABELLED
from tests.recipes.resuming import assert_resumes_exactly
from tests.steps_shown import shown_files

CONFIG = """
mixed < normed
recipe.training_sets = ('demo-train', 'calls')
network.training_step = 'mean_teacher.MeanTeacher'
network.max_epochs = 2
network.checkpoint_interval_steps = 2
teacher.decay = 0.9

pretrained
recipe.training_sets = ('calls',)
recipe.validation_sets = ()
recipe.end_stage = 1
network.network_class = 'asdf.networks.SSL_ASP'
front_end.architecture = 'tiny'
network.training_step = 'denoising.Denoising'
network.train_clip_size = 8000
network.optimizer = 'adam'
network.initial_learning_rate = 0.001
network.schedule = 'constant'
network.minibatch_size = 4
network.max_epochs = 2
network.print_interval = 1
computing.network_dataloader_workers = 0
computing.threads = 1
paths.system_folder = 'pretrained'
denoising.noise = 0.02

tuned < pretrained
recipe.training_sets = ('demo-train',)
recipe.validation_sets = ('demo-dev',)
network.training_step = 'plain'
network.min_evaluation_utterance_length_in_samples = 8000
network.max_epochs = 1
paths.system_folder = 'tuned'
front_end.weights = 'output/pretrained/networks/epoch.2.pt'
"""


@pytest.fixture
def mine(recipe, corpus):
    """The recipe with a corpus of evaluation recordings whose labels nobody knows."""
    recipe.with_files(CONFIG, **shown_files())
    names = [line.split()[0] for line in (corpus / "eval_list.txt").read_text().splitlines()]
    (recipe.folder / "calls.txt").write_text("\n".join(names) + "\n")
    run = (recipe.folder / "run.py").read_text()
    entry = f'    "calls": Corpus({str(recipe.folder / "calls.txt")!r}, unlabelled=True),\n'
    entry += '    "calls-dev": Corpus("dev_list.txt", unlabelled=True),\n'
    (recipe.folder / "run.py").write_text(run.replace("CORPORA = {\n", "CORPORA = {\n" + entry))
    return recipe


def weights(recipe, system: str, name: str) -> dict[str, torch.Tensor]:
    return read_network_file(recipe.system(system) / "networks" / name).state


def test_labelled_and_unlabelled_recordings_are_learnt_together(mine, capsys):
    outcome = mine.call(capsys, "mixed", "recipe.end_stage=1", "network.print_interval=1").ok()
    assert "training on 34 utterances: 13 bona fide, 13 spoof, 8 without a label" in outcome.output
    # Without them the steps are others, and the plain loss is of the labelled ones alone.
    losses = re.findall(r"step \d+: loss ([\d.]+)", outcome.output)
    assert len(losses) == 18 and all(float(loss) < 2 for loss in losses)


def test_pretraining_needs_no_label_and_its_front_end_goes_on(mine, capsys):
    outcome = mine.call(capsys, "pretrained").ok()
    assert "training on 8 utterances: 0 bona fide, 0 spoof, 8 without a label" in outcome.output
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([\d.]+)", outcome.output)]
    assert len(losses) == 4 and sum(losses[2:]) < sum(losses[:2])
    outcome = mine.call(capsys, "tuned", "network.initial_learning_rate=1e-30").ok()
    before, after = weights(mine, "pretrained", "epoch.2.pt"), weights(mine, "tuned", "epoch.1.pt")
    names = [name for name in before if name.startswith("front_end.")]
    assert names and all(torch.equal(before[name], after[name]) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_ends_as_one_never_killed(mine, processes):
    assert_resumes_exactly(mine, "mixed", processes=processes, TEST_KILL="0:5")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("network.training_step=plain", "default training step cannot use"),
        ("network.training_step=my_sam.SAM", "'my_sam.SAM' does not support them"),
        ("recipe.validation_sets=('calls-dev',)", "calls-dev has 8 recordings without labels"),
        ("recipe.evaluation_sets=('calls-dev',)", "calls-dev has 8 recordings without labels"),
        ("recipe.sampler=balanced_attacks", "would leave out the 8 recordings without labels"),
        ("recipe.sampler=balanced_classes", "would leave out the 8 recordings without labels"),
        ("augmentation.mixup_probability=0.5", "augmentation.mixup_probability mixes labels"),
        ("source.column=attack", "source.column need labels"),
    ],
)
def test_what_cannot_take_them_says_so(mine, capsys, words, said):
    for mode in (["--dry-run"], []):
        mine.call(capsys, "mixed", words, *mode).refused(said)
        assert not list(mine.output.rglob("*.pt"))


def test_a_list_without_labels_is_one_by_its_corpus_alone(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("a b.flac\nc.flac 1\n")
    trials = read_list(path, tmp_path, unlabelled=True)
    assert list(trials.ids) == ["a b.flac", "c.flac"]
    assert trials.labels.tolist() == [UNLABELLED, UNLABELLED] and trials.count_unlabelled == 2
    path.write_text("a b.flac\nc.flac\n")
    with pytest.raises(AsdfError, match=r"line 1: .*a corpus with unlabelled=True"):
        read_list(path, tmp_path)
    path.write_text("a.flac -1\n")
    with pytest.raises(AsdfError, match="line 1"):
        read_list(path, tmp_path)


@pytest.mark.parametrize("content", ["path,label\na.flac,1\nb.flac,0\n", "a.flac 1\nb.flac\n"])
def test_a_corpus_leaves_out_labels_whatever_its_list_is(tmp_path, content):
    (tmp_path / "list.txt").write_text(content)
    trials = Corpus("list.txt", unlabelled=True).read("calls", tmp_path)
    assert list(trials.ids) == ["a.flac", "b.flac"] and trials.count_unlabelled == 2


def test_a_protocol_leaves_out_labels_too(corpus):
    base = "LA/ASVspoof2019_LA_dev"
    protocol = next(corpus.rglob("*dev.trl.txt")).relative_to(corpus).as_posix()
    trials = Corpus(protocol, audio=f"{base}/flac", unlabelled=True).read("calls", corpus)
    assert len(trials) == trials.count_unlabelled == 8
