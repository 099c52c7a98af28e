"""Training from bona fide speech alone, of which vocoders make the spoofs, as a user would."""

import json
from pathlib import Path

import pytest
import torch

from asdf.trials.score_file import read_scores

VOCODED = """
vocoded < debug
recipe.training_sets = ('demo-bona-fide',)
recipe.end_stage = 2
vocoding.vocoders = ('lpc', 'my_vocoder.Backwards')
vocoding.corpus_spoofs = False
my_vocoder.gain = -2.5
paths.system_folder = 'vocoded'
"""

OWN = '''
from dataclasses import dataclass

import numpy as np

from asdf.audio.vocoding import Vocoder
from asdf.settings import OwnSettings, setting


@dataclass
class MyVocoderSettings(OwnSettings, section_name="my_vocoder"):
    """What Backwards needs."""

    gain: float = setting(1.0, "the gain")


class Backwards(Vocoder):
    """Speech played backwards."""

    own_settings = MyVocoderSettings

    def __init__(self, settings):
        self.gain = settings.my_vocoder.gain

    def vocode(self, samples, rng):
        polarity = rng.choice((-1.0, 1.0))
        return polarity * self.gain * samples[::-1].astype(np.float64)


class Loud(Vocoder):
    def vocode(self, samples, rng):
        return samples[:-1]
'''


@pytest.fixture
def vocoded(recipe, corpus):
    """The recipe with a training list of 13 bona fide utterances and no spoof."""
    recipe.with_files(VOCODED, my_vocoder=OWN)
    lines = (corpus / "train_list.txt").read_text().splitlines(keepends=True)
    bona_fide = [str(corpus / line) for line in lines if line.endswith(" 1\n")]
    (recipe.folder / "bona_fide.txt").write_text("".join(bona_fide))
    run = recipe.folder / "run.py"
    corpus = f"Corpus({str(recipe.folder / 'bona_fide.txt')!r})"
    declared = f'"demo-bona-fide": {corpus},\n    "demo-dev"'
    run.write_text(run.read_text().replace('"demo-dev"', declared, 1))
    return recipe


def weights(system: Path, epoch: int) -> dict[str, torch.Tensor]:
    path = system / "networks" / f"epoch.{epoch}.pt"
    return torch.load(path, weights_only=True)["model_state_dict"]


def assert_same_network(first: Path, second: Path, epoch: int) -> None:
    torch.testing.assert_close(weights(first, epoch), weights(second, epoch), rtol=0, atol=0)


@pytest.mark.slow
def test_it_trains_and_resumes_exactly_and_is_scored_on_real_spoofs(vocoded, capsys):
    outcome = vocoded.call(capsys, "vocoded", "computing.network_dataloader_workers=1").ok()
    assert "training on 26 utterances: 13 bona fide, 13 spoof" in outcome.output
    shares = "13 are vocoded copies (7 lpc, 6 my_vocoder.Backwards)"
    assert f"of the training utterances {shares}" in outcome.output
    records = json.loads((vocoded.system("vocoded") / "environment.json").read_text())
    assert records[-1]["vocoded_copies"] == {"lpc": 7, "my_vocoder.Backwards": 6}
    assert (vocoded.system("vocoded") / "code" / "my_vocoder.py").is_file()
    # Each recording was measured once.
    (table,) = (vocoded.output / "sad").glob("demo-bona-fide.*.tsv")
    assert table.read_text().count(".flac") == 13
    scores = read_scores(vocoded.system("vocoded") / "scores" / "epoch.3" / "demo-dev.txt")
    assert len(scores) == 8 and "epoch.3 on demo-dev: EER" in outcome.output
    for words in (("network.max_steps=10",), ()):
        vocoded.call(capsys, "vocoded", "paths.system_folder=resumed", *words).ok()
    assert_same_network(vocoded.system("vocoded"), vocoded.system("resumed"), 3)


@pytest.mark.slow
def test_two_processes_train_on_the_same_copies(vocoded, capsys):
    words = ("vocoded", "network.max_epochs=1", "network.global_minibatch_size=4")
    vocoded.call(capsys, *words).ok()
    vocoded.run(*words, "paths.system_folder=two", processes=2).ok()
    first = weights(vocoded.system("vocoded"), 1)
    # Sums over processes are rounded in another order.
    torch.testing.assert_close(weights(vocoded.system("two"), 1), first, rtol=1e-4, atol=1e-5)


def test_copies_are_counted_and_trained_on_next_to_spoofs_balanced_by_attack(vocoded, capsys):
    plan = vocoded.call(capsys, "vocoded", "--dry-run").ok()
    copies = "of which 13 are vocoded copies (7 lpc, 6 my_vocoder.Backwards)"
    said = f"26 training utterances, {copies}, = 7 steps per epoch"
    assert said in " ".join(plan.output.split())
    words = ("recipe.training_sets=('demo-train',)", "vocoding.corpus_spoofs=True")
    words += ("network.max_epochs=1", "vocoding.copies=0.5", "recipe.sampler='balanced_attacks'")
    outcome = vocoded.call(capsys, "vocoded", *words).ok()
    assert "training on 32 utterances: 13 bona fide, 19 spoof" in outcome.output
    # Half of the 32 turns for bona fide speech; 3 or 4 for each of A01 to A03, and the vocoders.
    assert "3 of the 3 of vocoded-lpc (demo-train)" in outcome.output


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("vocoding.vocoders=()", "vocoding.corpus_spoofs=True"),
            "none of them spoof: training needs both classes. Is it the right list? 1 is bona "
            "fide, 0 is spoof. Spoofs can be made from bona fide speech: see vocoding.vocoders.",
        ),
        (("vocoding.vocoders=('lpg', 'my_vocoder.Backwards')",), "the nearest is 'lpc'"),
        (("vocoding.vocoders=('my_vocoder.Backward',)",), "has no class 'Backward'"),
    ],
)
def test_what_cannot_be_trained_on_is_reported_before_any_work(
    vocoded, capsys, words, message, dry
):
    outcome = vocoded.call(capsys, "vocoded", *words, *dry)
    outcome.refused(message, status=None)
    assert outcome.output.count(message) == 1
    assert not list(vocoded.output.rglob("*.tsv"))


def test_a_vocoder_that_returns_no_copy_ends_the_run_with_its_name(vocoded, capsys):
    """Before training, and in a dry run."""
    loud = "vocoding.vocoders=('my_vocoder.Loud',)"
    named = "my_vocoder.Loud.vocode, for the recording "
    vocoded.call(capsys, "vocoded", loud, "--dry-run").refused(f"{named}'a sec", status=1)
    outcome = vocoded.call(capsys, "vocoded", loud)
    outcome.refused(named, "returned samples of shape (15999,)", status=1)
