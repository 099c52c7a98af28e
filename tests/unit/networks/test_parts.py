"""Parts of a front end that learn while the rest stays as it is."""

import pytest
import torch

from asdf.errors import UsageError
from asdf.networks import build_network, front_end_parameters
from asdf.networks.build import front_end_summary
from asdf.networks.casting import weights_cast_together
from asdf.networks.tuning import freeze_front_end
from tests.unit.networks.inspection import names_with_gradient, trainable_names

FRONT_END = "front_end.model."
LAYER = "encoder.transformer.layers"


def learning(settings, *parts: str) -> set[str]:
    """Names of the front end's parameters that learn, all by default, without their beginning."""
    settings.front_end.trained_parts = parts or None
    names = trainable_names(build_network(settings))
    return {name.removeprefix(FRONT_END) for name in names if name.startswith("front_end")}


def beginning(names: set[str], *starts: str) -> set[str]:
    return {name for name in names if name.startswith(starts)}


def test_the_words_name_what_the_manual_says(tiny):
    names = learning(tiny)
    assert learning(tiny, "convolutions") == beginning(names, "feature_extractor.")
    assert learning(tiny, "projection") == beginning(names, "encoder.feature_projection.")
    positions = beginning(names, "encoder.transformer.pos_conv_embed.")
    assert learning(tiny, "positions") == positions and len(positions) == 3
    assert learning(tiny, "layers") == beginning(names, f"{LAYER}.")
    assert learning(tiny, "biases") == {name for name in names if name.endswith("bias")}
    norms = {name for name in names if "norm" in name}
    assert learning(tiny, "norms") == norms
    both = learning(tiny, "norms", "convolutions")
    assert both == norms | beginning(names, "feature_extractor.")


def test_layers_are_counted_from_1_as_front_end_layer_counts_them(tiny):
    names = learning(tiny)
    assert learning(tiny, "layers:1") == beginning(names, f"{LAYER}.0.")
    assert learning(tiny, "layers:2-") == beginning(names, f"{LAYER}.1.")
    assert learning(tiny, "layers:1-2") == learning(tiny, "layers")


def test_patterns_are_of_names_in_the_model(tiny):
    names = learning(tiny, "encoder.*.attention.?_proj.weight")
    expected = {
        f"{LAYER}.{layer}.attention.{part}_proj.weight" for layer in (0, 1) for part in "kvq"
    }
    assert names == expected


def test_the_vector_of_masked_frames_is_a_part(tiny):
    tiny.front_end.time_mask_proportion = 0.1
    assert learning(tiny, "masks") == {"front_end.masking.embedding"}
    assert "front_end.masking.embedding" not in learning(tiny, "layers")


def test_positions_of_wavlm_are_its_biases_too(tiny):
    tiny.front_end.architecture = "wavlm_base"
    assert f"{LAYER}.0.attention.rel_attn_embed.weight" in learning(tiny, "positions")


@pytest.mark.parametrize(
    ("part", "layer", "message"),
    [
        ("layers:2-3", "last", r"'layers:2-3': Wav2Vec2FrontEnd has 2 encoder layers"),
        ("layers:3-", "last", r"has no part 'layers:3-'"),
        ("masks", "last", "has no part 'masks'"),
        (
            "encoder.transformer.layers.0.atention.k_proj.bias",
            "last",
            "Did you mean 'encoder.transformer.layers.0.attention.k_proj.bias'",
        ),
        ("layers:2", 1, "front_end.layer leaves out all of 'layers:2'"),
    ],
)
def test_a_part_that_is_not_there_is_an_error(part, layer, message, tiny):
    tiny.front_end.layer = layer
    with pytest.raises(UsageError, match=message):
        learning(tiny, part)


def test_a_network_without_a_front_end_has_no_parts(tiny):
    tiny.network.network_class = "asdf.networks.AASIST_L"
    with pytest.raises(UsageError, match=r"AASIST_L has no front end of asdf\.networks\.FrontEnd"):
        learning(tiny, "layers")


def test_only_the_chosen_parts_get_gradients_and_freezing_goes_there_and_back(tiny, waveforms):
    tiny.front_end.trained_parts = ("layers:2", "norms")
    tiny.front_end.layer_drop = 0.9
    tiny.front_end.unfreeze_after_epochs = 1
    network = build_network(tiny).train()
    expected = trainable_names(network)
    assert str(front_end_summary(network)).endswith("33,984 of them trainable")
    freeze_front_end(network, True)
    assert not any(parameter.requires_grad for parameter in front_end_parameters(network))
    freeze_front_end(network, False)
    assert trainable_names(network) == expected
    torch.manual_seed(0)
    network(waveforms)[1].sum().backward()
    # Also where a layer was dropped: no process waits for another.
    assert names_with_gradient(network) == expected


def test_under_autocast_weights_that_rest_get_no_gradient_computed():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    layer[0].weight.requires_grad_(False)
    inputs = torch.randn(3, 4)
    with torch.autocast("cpu", torch.bfloat16), weights_cast_together(layer, inputs.device):
        assert [layer[0].weight.requires_grad, layer[0].bias.requires_grad] == [False, True]
        assert layer[0].weight.dtype is torch.bfloat16
        layer(inputs).sum().backward()
    assert layer[0].weight.grad is None and layer[1].weight.grad.dtype is torch.float32
