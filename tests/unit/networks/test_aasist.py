"""Raw-waveform AASIST: equal to the published networks, quirk included, at any length."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.networks import AASIST, AASIST_L, scoring_length
from asdf.networks.back_ends.graph_attention import GraphPool, HeterogeneousGraphAttention
from asdf.networks.filters import SincFilters, band_pass_filters
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import first_norm_names

FIRST_NORMS = first_norm_names()


@pytest.mark.parametrize(("network_class", "name"), [(AASIST, "AASIST"), (AASIST_L, "AASIST-L")])
def test_published_weights_score_as_the_published_code_does(
    network_class, name, reference, recorded
):
    network = network_class(Sections())
    assert load_detector_weights(network, reference(f"{name}.pth")) == ()
    expected = recorded(f"{name}.npz")
    with torch.no_grad():
        embeddings, logits = network.eval()(expected["waveforms"])
    torch.testing.assert_close(logits, expected["logits"], atol=1e-5, rtol=0)
    torch.testing.assert_close(embeddings, expected["embeddings"], atol=2e-5, rtol=0)


def test_first_batch_norms_have_no_say_and_keep_their_statistics(waveforms):
    torch.manual_seed(0)
    network = AASIST_L(Sections()).eval()
    before = network(waveforms)[1]
    for name in FIRST_NORMS:
        network.get_parameter(name).data.fill_(7.0)
    assert torch.equal(network(waveforms)[1], before)
    network.train()(waveforms)
    block = network.encoder[1][0]
    assert int(block.bn1.num_batches_tracked) == 0
    assert int(block.bn2.num_batches_tracked) == 1


@pytest.mark.parametrize(
    ("samples", "length"), [(8000, 8000), (7999, 7997), (7998, 7997), (7997, 7997), (900, 900)]
)
def test_scoring_length_is_what_the_score_depends_on(samples, length, waveforms):
    torch.manual_seed(0)
    network = AASIST_L(Sections()).eval()
    waveform_1T = waveforms[:1, :samples]
    assert scoring_length(network, samples) == length
    with torch.no_grad():
        _, cut_12 = network(waveform_1T[:, :length])
        _, whole_12 = network(waveform_1T)
    torch.testing.assert_close(cut_12, whole_12, atol=1e-6, rtol=0)


def test_short_waveforms_are_repeated(waveforms):
    torch.manual_seed(0)
    network = AASIST_L(Sections()).eval()
    assert network.shortest_input == 2315
    short_BT = waveforms[:, :1000]
    repeated_BT = short_BT.repeat(1, 3)[:, :2315]
    with torch.no_grad():
        assert torch.equal(network(short_BT)[1], network(repeated_BT)[1])


def test_filters_are_windowed_band_passes_on_the_mel_scale():
    filters = band_pass_filters(70, 129)
    max_mel = 2595 * np.log10(1 + 8000 / 700)
    mels = np.linspace(0, max_mel, 71)
    edges_hz = 700 * (10 ** (mels / 2595) - 1)
    # The first is a low-pass, the last a high-pass filter.
    for band in range(1, 69):
        expected = scipy.signal.firwin(
            129, edges_hz[band : band + 2], pass_zero=False, scale=False, fs=16000
        )
        np.testing.assert_allclose(filters[band], expected, atol=1e-12)


def test_filters_stay_out_of_state_dicts_and_mask_only_on_request(waveforms):
    filters = SincFilters(70, 128)
    assert filters.state_dict() == {}
    assert (filters(waveforms).abs().amax(dim=(0, 2)) > 0).all()
    widths = set()
    for seed in range(150):
        torch.manual_seed(seed)
        filtered_1FT = filters(waveforms[:1, :200], mask=True)
        levels_F = filtered_1FT.abs().amax(dim=(0, 2))
        silent = (levels_F == 0).nonzero().flatten().tolist()
        widths.add(len(silent))
        if silent:
            first = silent[0]
            assert silent == list(range(first, first + len(silent)))
    assert min(widths) == 0
    assert max(widths) == 19


def test_frequency_masking_is_off_unless_a_derived_class_turns_it_on(waveforms):
    class Masked(AASIST_L):
        frequency_masking = True

    requested = []

    def note_mask(module, args, kwargs):
        requested.append(kwargs["mask"])

    for network_class in (AASIST_L, Masked):
        network = network_class(Sections())
        network.conv_time.register_forward_pre_hook(note_mask, with_kwargs=True)
        network.train()(waveforms)
        network.eval()(waveforms)
    assert requested == [False, False, True, False]


def test_graph_pool_returns_the_best_nodes_times_their_scores():
    pool = GraphPool(0.5, 1).eval()
    torch.nn.init.ones_(pool.proj.weight)
    torch.nn.init.zeros_(pool.proj.bias)
    nodes = torch.tensor([[[1.0], [-2.0], [3.0], [0.0], [2.0]]])
    expected = torch.tensor([[[3.0], [2.0]]])
    torch.testing.assert_close(pool(nodes), expected * torch.sigmoid(expected))
    assert pool(nodes[:, :1]).shape == (1, 1, 1)


@pytest.mark.parametrize("training", [False, True])
def test_graph_pool_chooses_nodes_in_float32_under_autocast(training):
    # Scores 1e-4 apart: bfloat16 has steps of 1/256 there, so nearly all of them are equal in it.
    nodes = torch.linspace(0.5, 0.52, 41)[torch.randperm(41, generator=torch.Generator())]
    pool = GraphPool(0.5, 1).train(training)
    pool.drop.p = 0.0
    torch.nn.init.ones_(pool.proj.weight)
    torch.nn.init.zeros_(pool.proj.bias)
    nodes_BNC = nodes.view(1, -1, 1)
    with torch.autocast("cpu", torch.bfloat16):
        pooled_BMC = pool(nodes_BNC)
    best = nodes.sort(descending=True).values[:20]
    torch.testing.assert_close(pooled_BMC.flatten(), best * torch.sigmoid(best))


def test_the_master_node_gathers_without_an_outer_product():
    """On a GPU torch 2.14 compiles outer products with Triton, which needs a C compiler."""
    torch.manual_seed(0)
    layer = HeterogeneousGraphAttention(8, 4, 100.0).eval()
    nodes_BNC = torch.randn(2, 5, 8)
    master_B1C = torch.randn(2, 1, 8)
    edges_BND = torch.tanh(layer.att_projM(nodes_BNC * master_B1C))
    scores_BN1 = edges_BND @ layer.att_weightM
    attention_B1N = torch.softmax(scores_BN1 / 100.0, dim=1).transpose(1, 2)
    from_nodes_B1D = layer.proj_with_attM(attention_B1N @ nodes_BNC)
    expected = from_nodes_B1D + layer.proj_without_attM(master_B1C)
    gathered = layer._gather_into_master(nodes_BNC, master_B1C)
    torch.testing.assert_close(gathered, expected, atol=1e-6, rtol=0)
    inner_sizes = set()

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten.bmm.default:
                inner_sizes.add(args[0].shape[2])
            return function(*args, **(kwargs or {}))

    nodes_BNC.requires_grad_()
    with Products():
        layer._gather_into_master(nodes_BNC, master_B1C).sum().backward()
    assert 1 not in inner_sizes
