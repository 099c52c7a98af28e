"""Parts in a file of the user's own: imported, built, checked."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from asdf.audio.augmentation import Chain, Part, open_chain
from asdf.audio.augmentation.chain import build_user_part
from asdf.errors import AsdfError
from asdf.settings.class_path import find_class
from tests.augmentations import augmentation

PARTS = '''
import numpy as np
from asdf.audio.augmentation import Part


class Louder(Part):
    """Twice as loud, or thrice."""

    def apply(self, clip, rng):
        return clip * np.float32(2 + rng.integers(2))


class Sometimes(Louder):
    probability = 0.25


class Halved(Part):
    shortens = True

    def apply(self, clip, rng):
        return clip[: len(clip) // 2]


class Reversed(Part):
    def apply(self, clip, rng):
        return clip[::-1]


class Unlikely(Louder):
    probability = 1.5


class Open(Louder):
    def __init__(self, settings, base):
        self.file = open(__file__)


class Broken(Louder):
    def __init__(self, settings, base):
        self.level = base.level


class Lazy(Part):
    def __init__(self, settings, base):
        self.table = None

    def apply(self, clip, rng):
        self.table = self.table or open(__file__)
        return clip


class Idle(Part):
    pass


class Failing(Part):
    def apply(self, clip, rng):
        return clip / np.zeros(3)


class Shorter(Part):
    def apply(self, clip, rng):
        return clip[1:]


class Wider(Part):
    def apply(self, clip, rng):
        return clip + rng.standard_normal(len(clip))


class Stereo(Part):
    def apply(self, clip, rng):
        return np.stack([clip, clip])


class Infinite(Part):
    def apply(self, clip, rng):
        with np.errstate(all="ignore"):
            return np.log(np.maximum(clip, 0))


class Silent(Part):
    def apply(self, clip, rng):
        clip *= 0


class Emptied(Halved):
    def apply(self, clip, rng):
        return clip[:0]


class NoPart:
    pass
'''


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A recipe's folder with parts of its own, in a module of another name for each test."""
    (tmp_path / f"{module(request)}.py").write_text(PARTS)
    return tmp_path


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return module(request)


def module(request: pytest.FixtureRequest) -> str:
    return "parts_" + str(abs(hash(request.node.name)))


def chain_of(folder: Path, *names: str) -> Chain:
    return open_chain(augmentation(*names), folder, folder)


def test_parts_of_ones_own_stand_among_ours(folder, name, speech):
    settings = augmentation(f"{name}.Louder", "time_mask", probability=1.0)
    chain = open_chain(settings, folder, folder)
    done = chain.apply(speech, 100, len(speech), np.random.default_rng(3), "a.wav")
    _, ours = chain.parts
    rng = np.random.default_rng(3)
    rng.random()
    wanted = speech * np.float32(2 + rng.integers(2))
    rng.random()
    assert_array_equal(done, ours.apply(wanted, rng))
    assert chain.describe() == "Louder, time_mask (2 up to 0.2 s)"
    assert str(folder) not in sys.path


def test_a_probability_is_an_attribute(folder, name, speech):
    chain = chain_of(folder, f"{name}.Sometimes")
    rng = np.random.default_rng(0)
    done = [chain.apply(speech, 100, len(speech), rng) is speech for _ in range(800)]
    assert abs(np.mean(done) - 0.75) < 0.05


def test_what_shortens_comes_before_repeating(folder, name, speech):
    chain = chain_of(folder, f"{name}.Louder", f"{name}.Halved")
    filled = chain.fill(speech[:1000], 4000, np.random.default_rng(0))
    assert_array_equal(filled, np.tile(speech[:500], 8))


def test_a_clip_may_run_backwards(folder, name, speech):
    chain = chain_of(folder, f"{name}.Reversed")
    done = chain.apply(speech, 100, len(speech), np.random.default_rng(0))
    assert_array_equal(torch.from_numpy(done), speech[::-1])


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("Unlikely", "{part} has the probability 1.5; a number from 0 to 1 is needed."),
        ("Open", "{part} cannot be sent to the loader's processes: TypeError: cannot pickle"),
        ("Broken", "{part}(settings, base) failed: AttributeError: "),
        ("Idle", "{part} does not implement apply, which Part requires. See asdf.audio.augm"),
        ("NoPart", "is not a class derived from asdf.audio.augmentation.Part,"),
        ("Loudr", "has no class 'Loudr'. Did you mean 'Louder'?"),
    ],
)
def test_a_part_that_cannot_be_made_is_refused(folder, name, part, problem):
    with pytest.raises(AsdfError) as caught:
        chain_of(folder, f"{name}.{part}")
    assert str(caught.value).startswith("augmentation.chain: ")
    assert problem.format(part=f"{name}.{part}") in str(caught.value)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("Failing", "failed: ValueError: operands could not be broadcast"),
        ("Shorter", "returned an array of shape (31999,), but a clip has 32,000 samples"),
        ("Wider", "returned samples of float64. End it with `.astype(np.float32)`."),
        ("Stereo", "returned an array of shape (2, 32000), but a clip has 32,000 samples"),
        ("Infinite", "of 32,000 samples that are not finite numbers"),
        ("Silent", "returned NoneType, not a numpy array: None. Return the clip."),
    ],
)
def test_what_is_no_clip_is_refused_by_part_and_recording(folder, name, part, problem, speech):
    """By a trial before training, and in training."""
    kind = find_class(f"{name}.{part}", folder, "augmentation.chain", Part)
    chain = Chain((build_user_part(kind, augmentation(), folder),), folder)
    with pytest.raises(AsdfError) as caught:
        chain.apply(speech.copy(), 100, len(speech), np.random.default_rng(0), "d/a.wav")
    where = f"augmentation.chain: {name}.{part}.apply, for the recording"
    assert str(caught.value).startswith(f"{where} d/a.wav, ")
    assert problem in str(caught.value)
    with pytest.raises(AsdfError) as caught:
        chain_of(folder, f"{name}.{part}")
    assert str(caught.value).startswith(f"{where} 'a second of noise', before training, ")


def test_nothing_cannot_be_repeated(folder, name, speech):
    with pytest.raises(AsdfError, match=r"shape \(0,\), but a clip has 1 to 16,000 samples"):
        chain_of(folder, f"{name}.Emptied")


def test_a_trial_leaves_a_part_as_it_was(folder, name):
    """What a part opens when it is first needed cannot be sent to other processes."""
    chain = chain_of(folder, f"{name}.Lazy")
    assert vars(chain.parts[0]) == {"table": None}
