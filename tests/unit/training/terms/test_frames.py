"""The frames' term by hand, and what it says of networks that do not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from asdf.data.datasets import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.networks.interface import Outputs
from asdf.settings.sections import Localisation, Sections
from asdf.tasks.localisation.task import build_frame_term
from asdf.trials.trial_list import TrialList

UTTERANCES = TrialList(
    ["a.wav", "b.wav", "c.wav"],
    np.array([0, 1, 0], np.int8),
    columns={"spoofed_s": ["0.05-0.07", "-", ""]},
)


class Framed(nn.Module):
    frame_hop = 320

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(1, 2)


def frames() -> ClipFrames:
    settings = Sections()
    settings.network.train_clip_size = 1600
    settings.network.clip_position = "start"
    return ClipFrames(UTTERANCES, np.array([1600, 1600, 1600]), settings, 320)


def make(**values):
    term = build_frame_term(Framed(), Localisation(enabled=True, **values), frames())
    assert term is not None
    return term


def outputs_of(logits_BF2) -> Outputs:
    return Outputs(
        torch.zeros(len(logits_BF2), 1), torch.zeros(len(logits_BF2), 2), {"frames": logits_BF2}
    )


def test_targets_are_the_labels_of_the_frames():
    term = make()
    targets = term.targets_of([(1, 0), (1, 1), (1, 2)])
    # 0.05 s to 0.07 s: samples 800 to 1120, the third and the fourth frame.
    assert targets.tolist() == [[1, 1, 0, 0, 1], [1] * 5, [0] * 5]
    assert term.counts(targets).tolist() == [1, 1, 1]


def test_the_value_is_the_mean_of_the_frames_weighted_cross_entropies():
    term = make(class_weights=(4.0, 1.0), weight=0.5)
    # Odds of 3 to 1 for bona fide; the fifth frame has no window.
    logits_BF2 = torch.tensor([[0.0, math.log(3)]]).repeat(1, 4, 1)
    targets = term.targets_of([(1, 0)])
    expected = (2 * math.log(4 / 3) + 2 * 4 * math.log(4)) / 4
    assert term.weight == 0.5
    assert term.per_utterance(outputs_of(logits_BF2), targets).tolist() == pytest.approx([expected])


def test_more_frames_than_a_clip_has_are_refused():
    term = make()
    targets = term.targets_of([(1, 0)])
    with pytest.raises(AsdfError, match="logits of 6 frames for a clip of 5 frames of 320 samples"):
        term.per_utterance(outputs_of(torch.zeros(1, 6, 2)), targets)
    with pytest.raises(AsdfError, match="logits of 0 frames"):
        term.per_utterance(Outputs(torch.zeros(1, 1), torch.zeros(1, 2)), targets)


def test_a_head_that_nothing_trains_is_refused():
    assert build_frame_term(nn.Identity(), Localisation(), None) is None
    with pytest.raises(UsageError, match=r"Framed has a frame-level head, which only localisation"):
        build_frame_term(Framed(), Localisation(), None)
