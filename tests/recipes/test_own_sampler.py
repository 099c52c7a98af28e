"""A user's sampler, in a file next to the recipe, from the dry run to the end of a training."""

import json

import pytest
import torch

from asdf.data.samplers import SETTING

SAMPLER = '''
import numpy as np
from asdf.data.samplers import Group, GroupedSampler, Sampler, indices_by
from asdf.runs.seeds import generator


class Half(Sampler):
    """Half of the utterances in each epoch, drawn with repetitions."""

    def order(self, epoch):
        draws = generator(self.seed, "half", epoch)
        return draws.integers(0, len(self.utterances), len(self.utterances) // 2)

    def describe(self):
        return f"{len(self.utterances) // 2} turns"


class BySpeaker(GroupedSampler):
    def groups(self):
        by_speaker = indices_by(self.utterances.columns["speaker"])
        return [Group(name, indices) for name, indices in by_speaker.items()]


class Outside(Sampler):
    def order(self, epoch):
        return np.arange(len(self.utterances)) + 1


class Growing(Sampler):
    def order(self, epoch):
        return np.arange(4 + epoch)


class Broken(Sampler):
    def __init__(self, settings, utterances):
        raise KeyError("no such column")

    def order(self, epoch):
        return []


class Other:
    pass
'''


def own(recipe, capsys, *words):
    return recipe.with_files(my_sampler=SAMPLER).call(capsys, "debug", *words)


def test_it_decides_what_an_epoch_is(recipe, capsys):
    words = ("recipe.sampler=my_sampler.Half", "network.schedule=cosine", "network.max_epochs=2")
    outcome = own(recipe, capsys, *words, "network.print_interval=1", "recipe.end_stage=1").ok()
    # 26 utterances: 13 turns in minibatches of 4.
    assert "4 steps per epoch" in outcome.output
    assert f"{SETTING} = 'my_sampler.Half': 13 turns" in outcome.output
    assert "epoch 1, utterance 13 of 13, step 4" in outcome.output
    lines = [json.loads(line) for line in (recipe.system() / "metrics.jsonl").open()]
    steps = [line for line in lines if line["kind"] == "step"]
    assert [line["epoch"] for line in steps[:4]] == [4 / 13, 8 / 13, 12 / 13, 1.0]
    # Half a cosine over the turns of both epochs; the rate of a step is that at its start.
    done = [(epoch * 13 + turn) / 26 for epoch in (0, 1) for turn in (0, 4, 8, 12)]
    expected = [0.0015 * (1 + float(torch.cos(torch.tensor(torch.pi * d)))) for d in done]
    rates = torch.tensor([line["learning_rate"] for line in steps])
    torch.testing.assert_close(rates, torch.tensor(expected), rtol=1e-5, atol=1e-9)
    saved = (recipe.system() / "code" / "my_sampler.py").read_text()
    assert saved == SAMPLER


def test_groups_of_its_own_need_their_names_alone_and_a_dry_run_counts_turns(recipe, capsys):
    words = ("recipe.sampler=my_sampler.BySpeaker", "network.max_epochs=1", "recipe.end_stage=1")
    assert "26 turns per epoch: " in own(recipe, capsys, *words).ok().output
    outcome = own(recipe, capsys, "recipe.sampler=my_sampler.Half", "--dry-run").ok()
    turns = "13 turns of the 26 training utterances (my_sampler.Half) = 4 steps per epoch, "
    assert f"{turns}at most 3 epochs and 12 steps" in outcome.output
    outcome = own(recipe, capsys, "recipe.sampler=balanced_classes", "--dry-run")
    assert "26 turns of the 26 training utterances (balanced_classes) = 7" in outcome.output


def test_what_is_wrong_with_it_is_said_before_anything_is_measured(recipe, capsys):
    for name, message in (
        ("Outside", "Outside.order(1) has the index 26, but the training list has the utterances"),
        ("Broken", "Broken(settings, utterances) failed: KeyError: 'no such column'"),
        ("Haft", "has no class 'Haft'. Did you mean 'Half'?"),
        ("Other", "is not a class derived from asdf.data.samplers.Sampler, which is required"),
    ):
        for words in (("--dry-run",), ()):
            outcome = own(recipe, capsys, f"recipe.sampler=my_sampler.{name}", *words)
            outcome.refused(message, status=1 if name in ("Outside", "Broken") else 2)
            assert not (recipe.output / "sad").exists()
    outcome = own(recipe, capsys, "recipe.sampler=balanced_clases")
    assert "the nearest is 'balanced_classes'" in outcome.output


def test_epochs_of_different_sizes_end_the_run_with_what_was_trained(recipe, capsys):
    outcome = own(recipe, capsys, "recipe.sampler=my_sampler.Growing")
    outcome.refused("Growing.order(2) has 6 turns, but order(1) has 5.", status=1)
    assert (recipe.system() / "networks" / "epoch.1.pt").exists()


@pytest.mark.slow
def test_a_sampler_that_changed_is_noticed(recipe, capsys):
    words = ("network.checkpoint_interval_steps=2", "recipe.end_stage=1")
    outcome = own(recipe, capsys, "network.max_steps=3", *words).ok()
    # In the middle of an epoch, of which 12 turns have been taken.
    words = (*words, "recipe.sampler=balanced_classes")
    outcome = own(recipe, capsys, "network.max_epochs=1", *words).ok()
    notice = "the order of the training utterances differs from that of the checkpoint"
    assert notice in outcome.output
    assert "something else that it depends on has changed: its epoch starts over" in outcome.output
    assert recipe.load()["progress"]["step"] == 3 + 7
    # Between two epochs nothing is lost.
    outcome = own(recipe, capsys, "network.max_epochs=2", "recipe.seed=4", *words)
    assert notice in outcome.output and "another order from here on" in outcome.output
    outcome = own(recipe, capsys, "network.max_epochs=3", "recipe.seed=4", *words).ok()
    assert notice not in outcome.output
