"""The interface of front ends: what a front end of another kind gets without writing it."""

from __future__ import annotations

import pytest
import torch

from asdf.errors import AsdfError, UsageError
from asdf.interchange import load_pretrained
from asdf.networks import SSL_ASP, FrontEnd, Wav2Vec2FrontEnd, build_network
from asdf.networks.build import self_contained
from asdf.networks.split import check_split, feature_identity
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import trainable_names


class Frames(FrontEnd):
    """Windows of 40 samples every 16 through a linear map, and one more layer behind it."""

    dimension = 6
    window = 40
    hop = 16
    encoder_layers = 1
    cacheable = True

    def make_model(self, settings):
        first = torch.nn.Linear(self.window, self.dimension)
        second = torch.nn.Linear(self.dimension, self.dimension)
        return torch.nn.ModuleList([first, second])

    def states(self, waveforms_BT):
        windows_BLW = waveforms_BT.unfold(1, self.window, self.hop)
        x_BLC = self.mask(self.model[0](windows_BLW))
        yield x_BLC
        if self.layers:
            yield self.model[1](x_BLC).tanh()

    def load_weights(self, weights):
        self.model.load_state_dict(torch.load(weights, weights_only=True))


class FramesASP(SSL_ASP):
    front_end_class = Frames


def front_end(kind: type[FrontEnd] = Frames, **settings) -> FrontEnd:
    torch.manual_seed(0)
    return kind(FrontEndSettings(**settings))


def test_frames_and_samples_are_counted_by_window_and_hop(waveforms):
    model = front_end()
    for samples in (40, 55, 56, 8000):
        assert model(waveforms[:, :samples]).shape == (2, model.frames(samples), 6)
    for samples, frames in ((39, 0), (40, 1), (55, 1), (56, 2)):
        assert model.frames(samples) == frames
    for frames, samples in ((1, 40), (2, 56), (3, 72)):
        assert model.min_samples(frames) == samples


def test_wav2vec2s_window_and_hop_give_the_frames_of_its_convolutions():
    model = front_end(Wav2Vec2FrontEnd, architecture="tiny")
    assert isinstance(model, Wav2Vec2FrontEnd)
    assert (model.window, model.hop) == (400, 320)
    for samples in (0, 399, 400, 719, 720, 8000, 64600):
        assert model.frames(samples) == model.architecture.frames(samples)


@pytest.mark.parametrize("samples", [20, 40, 55, 56, 199])
def test_the_scoring_length_ends_with_the_last_whole_window(samples, waveforms):
    model = front_end().eval()
    waveform_1T = waveforms[:1, :samples].requires_grad_()
    model(waveform_1T).pow(3).sum().backward()
    assert waveform_1T.grad is not None
    last_used = int(waveform_1T.grad[0].nonzero().max())
    assert model.scoring_length(samples) == last_used + 1


def test_waveforms_shorter_than_a_window_are_repeated(waveforms):
    model = front_end().eval()
    short_BT = waveforms[:, :15]
    repeated_BT = short_BT.repeat(1, 3)[:, :40]
    assert torch.equal(model(short_BT), model(repeated_BT))


def test_layers_are_chosen_and_summed(waveforms):
    states = front_end().hidden_states(waveforms)
    assert len(states) == 2
    assert torch.equal(front_end()(waveforms), states[1])
    assert torch.equal(front_end(layer=0)(waveforms), states[0])
    (output,) = front_end().layer_outputs(waveforms)
    assert torch.equal(output, states[1])
    summed = front_end(layer="weighted")(waveforms)
    torch.testing.assert_close(summed, (states[0] + states[1]) / 2)
    with pytest.raises(UsageError, match=r"front_end\.layer = 2: this front end has 1 encoder"):
        front_end(layer=2)


def test_frozen_it_runs_without_masks_and_only_the_sum_of_layers_learns(waveforms):
    masks = {"time_mask_proportion": 0.5, "time_mask_length": 2, "layer": "weighted"}
    expected = front_end(layer="weighted").eval()(waveforms)
    model = front_end(frozen=True, **masks).train()
    features = model(waveforms)
    assert torch.equal(features, expected)
    features.square().sum().backward()
    assert trainable_names(model) == ["layer_sum.weights"]
    assert not torch.equal(front_end(**masks).train()(waveforms), expected)


def test_a_derived_class_has_to_say_again_that_its_features_can_be_cached():
    class Louder(Wav2Vec2FrontEnd):
        def states(self, waveforms_BT):
            return super().states(2 * waveforms_BT)

    class LouderASP(SSL_ASP):
        front_end_class = Louder

    with pytest.raises(UsageError, match="has the front end Louder, whose class does not set"):
        check_split(LouderASP)
    settings = Sections()
    settings.front_end.architecture = "tiny"
    settings.front_end.frozen = True
    with pytest.raises(UsageError, match="or its class does not set cacheable = True"):
        feature_identity(LouderASP(settings))


def test_a_constructor_reads_no_weights_and_random_ones_are_not_computed_with(tiny, waveforms):
    tiny.front_end.weights = "no/such/file.pt"
    network = build_network(tiny)
    with pytest.raises(AsdfError, match=r"front_end\.weights = 'no/such/file\.pt' are not loaded"):
        network(waveforms)


def test_a_front_end_of_another_kind_loads_its_weights_by_itself(tmp_path, waveforms):
    pretrained = front_end()
    torch.save(pretrained.model.state_dict(), tmp_path / "frames.pt")
    settings = Sections()
    settings.front_end.weights = str(tmp_path / "frames.pt")
    torch.manual_seed(1)
    network = FramesASP(settings)
    load_pretrained(network)
    assert torch.equal(network.front_end(waveforms), pretrained(waveforms))
    assert self_contained(settings.front_end, network).weights is None


def test_a_front_end_that_takes_no_weights_refuses_them():
    class Bare(Frames):
        load_weights = FrontEnd.load_weights

    with pytest.raises(
        UsageError, match=r"front_end\.weights = 'x\.pt': Bare does not support pre"
    ):
        load_pretrained(front_end(Bare, weights="x.pt"))


@pytest.mark.parametrize("samples", [40, 41, 48, 56, 57, 100, 101, 8000])
def test_the_last_frame_is_repeated_up_to_the_end(samples, waveforms):
    """As many frames as hops begin; s3prl writes the same number as len(range(0, samples, hop))."""
    plain = front_end().eval()
    model = front_end(repeat_last_frame=True).eval()
    part_BT = waveforms[:, :samples]
    begun = len(range(0, samples, 16))
    assert model.frames(samples) == begun
    assert model.scoring_length(samples) == samples
    for repeated, state in zip(
        model.hidden_states(part_BT), plain.hidden_states(part_BT), strict=True
    ):
        frames = state.shape[1]
        assert torch.equal(repeated[:, :frames], state)
        assert torch.equal(repeated[:, frames:], state[:, -1:].expand(-1, begun - frames, -1))
        assert repeated.shape[1] == begun
    assert model.feature_settings() != plain.feature_settings()
