"""A part in a file next to the recipe reaches worker processes of any start method."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from asdf.audio.augmentation import open_chain
from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import RawBoost
from asdf.trials.trial_list import TrialList
from tests.augmentations import augmentation
from tests.unit.data.conftest import LENGTHS, OFF, assert_workers_change_no_sample

# With a module of its own behind it, and a class of that module among its attributes.
TILTS = """
from asdf.audio.augmentation import Part
from tilting import Tilt

class Tilted(Part):
    probability = 0.8

    def __init__(self, settings, base):
        self.tilt = Tilt(0.5)

    def apply(self, clip, rng):
        if clip.max() > 2:
            raise ValueError("too loud")
        return self.tilt(clip, rng.random())
"""
TILTING = """
import numpy as np

class Tilt:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, clip, level):
        before = np.concatenate([clip[:1], clip[:-1]])
        return (clip - self.scale * level * before).astype(np.float32)
"""
KEYS = [[(epoch, index) for index in range(3)] for epoch in range(1, 5)]


@pytest.fixture
def clips(utterances: TrialList, tmp_path: Path) -> TrainingClips:
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "tilts.py").write_text(TILTS)
    (folder / "tilting.py").write_text(TILTING)
    for module in ("tilts", "tilting"):
        sys.modules.pop(module, None)
    chain = open_chain(augmentation("tilts.Tilted", "time_mask"), tmp_path, folder)
    return TrainingClips(utterances, LENGTHS, 4000, RawBoost(), OFF, 0, augmentation=chain)


@pytest.fixture
def start_method(request: pytest.FixtureRequest) -> Iterator[str]:
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.slow_but("fork", "forkserver")
@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"], indirect=True)
def test_workers_import_what_lies_next_to_the_recipe(
    clips: TrainingClips, start_method: str
) -> None:
    assert_workers_change_no_sample(clips, KEYS)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failing_part_comes_out_as_one_message_with_the_recording(
    clips: TrainingClips, utterances: TrialList, workers: int
) -> None:
    (part, _) = clips.augmentation.parts
    part.tilt.scale = np.inf
    with pytest.raises(AsdfError) as caught:
        list(BatchLoader(clips, workers, World()).batches([[(1, 2), (2, 2), (3, 2)]]))
    message = str(caught.value)
    start = f"augmentation.chain: tilts.Tilted.apply, for the recording {utterances.path(2)}, "
    assert message.startswith(start + "returned ")
    assert "not finite numbers" in message
