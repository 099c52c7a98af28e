"""The terms of frames and of sources by hand, and what they say of networks that do not fit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import fill_network
from asdf.data.datasets import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.interchange import read_network
from asdf.networks.attached import heads_of
from asdf.networks.interface import Outputs
from asdf.settings.sections import Localisation, Sections
from asdf.tasks.localisation.task import build_frame_term
from asdf.tasks.tracing.task import ClassHead, CosineClassHead, build_source_term
from asdf.trials.trial_list import TrialList
from tests.small_networks import Plain

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


def make_term(**values):
    term = build_frame_term(Framed(), Localisation(enabled=True, **values), frames())
    assert term is not None
    return term


def outputs_of(logits_BF2) -> Outputs:
    return Outputs(
        torch.zeros(len(logits_BF2), 1), torch.zeros(len(logits_BF2), 2), {"frames": logits_BF2}
    )


def test_targets_are_the_labels_of_the_frames():
    term = make_term()
    targets = term.targets_of([(1, 0), (1, 1), (1, 2)])
    # 0.05 s to 0.07 s: samples 800 to 1120, the third and the fourth frame.
    assert targets.tolist() == [[1, 1, 0, 0, 1], [1] * 5, [0] * 5]
    assert term.counts(targets).tolist() == [1, 1, 1]


def test_the_value_is_the_mean_of_the_frames_weighted_cross_entropies():
    term = make_term(class_weights=(4.0, 1.0), weight=0.5)
    # Odds of 3 to 1 for bona fide; the fifth frame has no window.
    logits_BF2 = torch.tensor([[0.0, math.log(3)]]).repeat(1, 4, 1)
    targets = term.targets_of([(1, 0)])
    expected = (2 * math.log(4 / 3) + 2 * 4 * math.log(4)) / 4
    assert term.weight == 0.5
    assert term.per_utterance(outputs_of(logits_BF2), targets).tolist() == pytest.approx([expected])


def test_more_frames_than_a_clip_has_are_refused():
    term = make_term()
    targets = term.targets_of([(1, 0)])
    with pytest.raises(AsdfError, match="logits of 6 frames for a clip of 5 frames of 320 samples"):
        term.per_utterance(outputs_of(torch.zeros(1, 6, 2)), targets)
    with pytest.raises(AsdfError, match="logits of 0 frames"):
        term.per_utterance(Outputs(torch.zeros(1, 1), torch.zeros(1, 2)), targets)


def test_a_head_that_nothing_trains_is_refused():
    assert build_frame_term(nn.Identity(), Localisation(), None) is None
    with pytest.raises(UsageError, match=r"Framed has a frame-level head, which only localisation"):
        build_frame_term(Framed(), Localisation(), None)


TRIALS = TrialList(
    [f"{i}.wav" for i in range(6)],
    np.array([0, 1, 0, 0, 1, 0], np.int8),
    columns={"attack": ["A02", "-", "A01", "A07", "-", "A01"]},
    name="mine",
)
CLASSES = [1, -1, 0, 2, -1, 0]
OWN_HEAD = """
import torch
from asdf.tasks.tracing.task import ClassHead

class Deep(ClassHead):
    def __init__(self, settings, dimension, classes):
        super().__init__(settings, dimension, classes)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(dimension, 4), torch.nn.ReLU(), torch.nn.Linear(4, classes)
        )

    def logits(self, embeddings_BE):
        return self.layers(embeddings_BE)

class Short(Deep):
    def logits(self, embeddings_BE):
        return super().logits(embeddings_BE)[:, 1:]

class Other(torch.nn.Module):
    pass
"""


def settings_of(**source) -> Sections:
    settings = Sections()
    settings.network.network_class = "small_networks.Plain"
    settings.network.train_clip_size = 400
    settings.source.column = "attack"
    for name, value in source.items():
        setattr(settings.source, name, value)
    return settings


def built(**source) -> tuple[nn.Module, Tensor]:
    settings = settings_of(**source)
    torch.manual_seed(0)
    network = Plain(settings)
    return network, build_source_term(network, TRIALS, settings)


def test_the_values_are_cross_entropies_of_utterances_of_a_class() -> None:
    network, term = built(weight=0.5)
    targets = term.targets_of([(7, index) for index in range(6)])
    assert targets.tolist() == CLASSES and term.weight == 0.5
    assert term.counts(targets).tolist() == [1, 0, 1, 1, 0, 1]
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    values = term.per_utterance(Outputs(None, torch.zeros(6, 2), {"sources": logits}), targets)
    expected = F.cross_entropy(logits, targets, ignore_index=-1, reduction="none")
    torch.testing.assert_close(values, expected, rtol=0, atol=0)
    outputs = network(torch.randn(2, 400))
    assert outputs.extras["sources"].shape == (2, 3)


@pytest.mark.parametrize(
    "bona_fide, classes",
    # Of spoofs: of a bona fide crop, of a spoofed crop, of a whole spoof; then of bona fide speech.
    [("left_out", [-1, 1, 0, -1]), ("class", [2, 1, 0, 2]), ("by_column", [1, 1, 0, 2])],
)
def test_a_bona_fide_crop_of_a_spoof_is_of_no_attack(bona_fide: str, classes: list[int]) -> None:
    parts = ["0.5-1", "0-0.1", "", "-"]
    attacks = ["A02", "A02", "A01", "bona fide" if bona_fide == "class" else "none"]
    trials = TrialList(
        ["a.wav", "b.wav", "c.wav", "d.wav"],
        np.array([0, 0, 0, 1], np.int8),
        columns={"attack": attacks, "spoofed_s": parts},
    )
    settings = settings_of(bona_fide=bona_fide)
    settings.network.clip_position = "start"
    frames = ClipFrames(trials, np.full(4, 16_000), settings, 100)
    term = build_source_term(Plain(settings), trials, settings, frames=frames)
    assert term.targets_of([(1, index) for index in range(4)]).tolist() == classes


def test_cosines_have_a_margin_in_training_alone() -> None:
    network, term = built(head="cosine", scale=10.0, margin=0.3)
    (head,) = heads_of(network)
    assert isinstance(head, CosineClassHead)
    embeddings = torch.randn(6, 48)
    logits = head.logits(embeddings)
    cosines = F.cosine_similarity(embeddings[:, None], head.weight_KE[None], dim=2)
    torch.testing.assert_close(logits, 10 * cosines)
    targets = torch.tensor(CLASSES)
    values = term.per_utterance(
        Outputs(embeddings, torch.zeros(6, 2), {"sources": logits}), targets
    )
    harder = logits.clone()
    for row, index in enumerate(CLASSES):
        harder[row, index] -= 3.0
    expected = F.cross_entropy(harder, targets, ignore_index=-1, reduction="none")
    torch.testing.assert_close(values, expected)


def test_the_weights_follow_from_the_seed_and_nothing_else_changes() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, _ = built()
    torch.manual_seed(6)
    second, _ = built()
    name = "class_head.output.weight"
    assert torch.equal(first.state_dict()[name], second.state_dict()[name])
    torch.manual_seed(5)
    settings = settings_of()
    network = Plain(settings)
    after_network = torch.get_rng_state()
    build_source_term(network, TRIALS, settings)
    assert torch.equal(torch.get_rng_state(), after_network) and len(state)


@pytest.mark.parametrize("head", ["linear", "cosine", "my_head.Deep"])
def test_a_network_comes_back_from_its_file_with_the_names_of_its_classes(
    head: str, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "my_head.py").write_text(OWN_HEAD)
    (tmp_path / "small_networks.py").write_text(Path("tests/small_networks.py").read_text())
    monkeypatch.syspath_prepend(tmp_path)
    settings = settings_of(head=head, scale=7.0)
    network = Plain(settings).eval()
    build_source_term(network, TRIALS, settings, tmp_path)
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    read, file = read_network(tmp_path / "net.pt", tmp_path)
    assert file.sources["classes"] == ["A01", "A02", "A07"] and file.sources["column"] == "attack"
    (back,) = heads_of(read)
    assert isinstance(back, ClassHead)
    assert back.names == ("A01", "A02", "A07") and back.bona_fide == "left_out"
    clips = torch.randn(3, 400)
    assert torch.equal(read(clips).extras["sources"], network(clips).extras["sources"])
    other, _ = built(classes=("A01", "A02"))
    with pytest.raises(
        AsdfError,
        match=r"column attack; .*classes A01, A02, A07\), and this run .*classes A01, A02\)",
    ):
        fill_network(other, file)
    if head.startswith("my_head"):
        file.sources["head"] = "elsewhere.Deep"
        write_network_file(tmp_path / "other.pt", file)
        with pytest.raises(AsdfError, match="no module in"):
            read_network(tmp_path / "other.pt", tmp_path)
        file.sources["head"] = head
    file.sources["classes"] = ["A01"]
    write_network_file(tmp_path / "damaged.pt", file)
    with pytest.raises(AsdfError, match=r"the head of 'sources' of .* cannot be built"):
        read_network(tmp_path / "damaged.pt", tmp_path)


def test_heads_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "my_other_head.py").write_text(OWN_HEAD)
    messages = {
        "my_other_head.Short": r"returns \(2, 2\) as the logits of 2 utterances",
        "my_other_head.Other": "ClassHead",
        "my_other_head.Nothing": "Nothing",
    }
    for head, message in messages.items():
        settings = settings_of(head=head)
        with pytest.raises(AsdfError, match=message):
            build_source_term(Plain(settings), TRIALS, settings, tmp_path)


class Framewise(Plain):
    def forward(self, waveforms_BT):
        embeddings, logits = super().forward(waveforms_BT)
        return embeddings.unsqueeze(1), logits


def test_a_network_without_embeddings_traces_nothing() -> None:
    settings = settings_of()
    with pytest.raises(UsageError, match="traced by embeddings"):
        build_source_term(Framewise(settings), TRIALS, settings)
