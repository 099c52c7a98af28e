"""Augmentation and speech activity through a recipe: what is missing is reported at the start."""

import numpy as np
import pytest
import soundfile


@pytest.fixture
def call(recipe, capsys):
    return lambda *words: recipe.call(capsys, "debug", "network.max_epochs=1", *words)


NOISE = "augmentation.chain=('noise',)"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((NOISE,), "'noise', which cannot be used with augmentation.noise_folders = ()"),
        (
            (NOISE, "augmentation.noise_folders=('musan',)"),
            "augmentation.noise_folders names {corpus}/musan, which does not exist.",
        ),
        (("sad.mode=endpoint", "sad.detector=silero"), "= 'silero' needs the package silero-vad"),
    ],
)
def test_what_is_missing_is_reported_before_any_work(
    recipe, call, corpus, monkeypatch, words, message, dry
):
    monkeypatch.setattr("asdf.audio.speech_check._PACKAGE", "silero-vad-of-nobody")
    message = message.replace("silero-vad", "silero-vad-of-nobody").format(corpus=corpus)
    call(*words, *dry).refused(message)
    assert not list(recipe.output.rglob("*.tsv"))


def test_evaluation_does_not_look_for_what_only_training_needs(trained, call):
    call("recipe.start_stage=2", NOISE, "augmentation.noise_folders=('nowhere',)").ok()


@pytest.mark.slow
def test_a_network_is_trained_on_augmented_examples_and_scored_on_clean_ones(
    recipe, call, tmp_path
):
    rng = np.random.default_rng(0)
    for name in ("noise", "rooms"):
        (tmp_path / name).mkdir()
        waveform = rng.uniform(-0.5, 0.5, 6000) * np.exp(-np.arange(6000) / 300)
        soundfile.write(tmp_path / name / "x.wav", waveform, 16000)
    chain = (
        "augmentation.chain=('speed', 'noise', 'reverberation', 'codec')",
        f"augmentation.noise_folders=({str(tmp_path / 'noise')!r},)",
        f"augmentation.reverberation_folders=({str(tmp_path / 'rooms')!r},)",
    )
    outcome = call(*chain).ok()
    assert "augmented: speed, noise (1 recordings), reverberation (1 impulse" in outcome.output
    scored = recipe.scores().scores
    for words in (chain, ()):
        call("recipe.start_stage=2", *words).ok()
        assert np.array_equal(recipe.scores().scores, scored)
    call("paths.system_folder=clean").ok()
    assert not np.array_equal(recipe.scores(system="clean").scores, scored)


PARTS = """
from dataclasses import dataclass

import numpy as np
from asdf.audio.augmentation import Part
from asdf.settings import OwnSettings, setting


class Quieter(Part):
    probability = 0.5

    def apply(self, clip, rng):
        return clip * np.float32(rng.uniform(0.1, 0.5))


@dataclass
class LevelSettings(OwnSettings, section_name="level"):
    probability: float = setting(0.0, "proportion of the examples", at_least=0, at_most=1)
    factor: float = setting(0.5, "what a clip is multiplied by", above=0)


class Level(Part):
    own_settings = LevelSettings

    def __init__(self, settings, base):
        # Without the constructor of Part: the probability is read all the same.
        self.factor = settings.level.factor

    def apply(self, clip, rng):
        return clip * np.float32(self.factor)

    def describe(self):
        return f"{self.factor:g} times in {self.probability:g} of the examples"


class Wide(Part):
    def apply(self, clip, rng):
        return clip * rng.uniform(0.1, 0.5, len(clip))
"""


def test_parts_of_ones_own_lie_next_to_the_recipe_and_have_settings_of_their_own(recipe, call):
    (recipe.folder / "my_parts.py").write_text(PARTS)
    only_training = ("recipe.end_stage=1", "computing.network_dataloader_workers=1")
    chain = "augmentation.chain=('my_parts.Quieter', 'my_parts.Level', 'silence')"
    level = ("level.factor=0.25", "level.probability=0.75")
    outcome = call(chain, *level, *only_training).ok()
    assert "augmented: Quieter, 0.25 times in 0.75 of the examples, silence" in outcome.output
    assert list(recipe.system().rglob("code/my_parts.py"))
    said = "there is no setting 'level.factr'; the nearest is 'level.factor'"
    call(chain, "level.factr=0.25").refused(said)
    dry = call("augmentation.chain=('speed', 'my_parts.Quiet')", "--dry-run")
    dry.refused("has no class 'Quiet'. Did you mean 'Quieter'?")
    said = "returned samples of float64. End it with `.astype(np.float32)`."
    wide = ("augmentation.chain=('my_parts.Wide',)", "paths.system_folder=w", *only_training)
    for words in ((*wide, "--dry-run"), wide):
        outcome = call(*words).refused(said, status=1)
    assert "my_parts.Wide.apply, for the recording " in outcome.output


def test_rawboost_of_whole_batches_trains_the_same_network(recipe, call):
    losses = []
    on_device = ("rawboost.on_device=True", "computing.network_dataloader_workers=1")
    for system, words in (("a", ()), ("b", on_device)):
        words = (*words, "rawboost.enabled=True", "rawboost.algo=4", "recipe.end_stage=1")
        call(f"paths.system_folder={system}", *words).ok()
        losses.append(recipe.load(system=system)["training_loss"])
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
