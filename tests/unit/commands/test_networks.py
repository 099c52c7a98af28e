"""`python -m asdf networks`: true numbers, and quickly for networks of any size."""

import pytest
import torch

from asdf.__main__ import main
from asdf.commands.networks import measure
from asdf.errors import UsageError
from asdf.networks import build_network
from asdf.settings import Sections


@pytest.mark.slow
def test_parameters_are_the_published_ones():
    rows = {row.name.removeprefix("asdf.networks."): row for row in measure("tiny", 64000)}
    assert list(rows) == [
        "AASIST",
        "AASIST_L",
        "SSL_AASIST",
        "SSL_AASIST_L",
        "SSL_ASP",
        "SSL_ECAPA",
        "SSL_LCNN",
        "SSL_MHFA",
        "SSL_SLS",
        "SSL_SUPERB",
        "SSL_SUPERBAASIST",
        "RawGAT_ST",
        "RawNet2",
        "SSL_Conformer",
        "SSL_ConformerTCM",
        "SSL_DeepFenseAASIST",
        "SSL_DeepFenseMLP",
        "SSL_DeepFenseNes2Net",
        "SSL_DeepFenseTCM",
        "SSL_GatedConformer",
        "SSL_Linear",
        "SSL_Mamba",
        "SSL_MapLCNN",
        "SSL_MesoNet",
        "SSL_Nes2NetX",
        "SSL_ResNet18",
        "SSL_SpecRNet",
        "SSL_SpectraAASIST",
        "SSL_SpectraAASIST3",
        "SSL_SpectraECAPA",
        "SSL_WeDefenseMHFA",
    ]
    assert rows["AASIST"].parameters == rows["AASIST"].back_end_parameters == 297_866
    assert rows["AASIST_L"].parameters == 85_306
    assert rows["RawNet2"].parameters == rows["RawNet2"].back_end_parameters == 17_621_410
    assert {name for name, row in rows.items() if row.takes != "any length"} == {
        "SSL_SLS",
        "RawGAT_ST",
    }
    assert rows["SSL_SLS"].takes == "64,600 samples"
    settings = Sections()
    settings.front_end.architecture = "tiny"
    for name, row in rows.items():
        settings.network.network_class = row.name
        network = build_network(settings)
        assert row.parameters == sum(parameter.numel() for parameter in network.parameters()), name
        front_end = [
            parameter
            for name_of_layer, parameter in network.named_parameters()
            if name_of_layer.startswith("front_end.")
        ]
        assert row.parameters - row.back_end_parameters == sum(
            parameter.numel() for parameter in front_end
        ), name


@pytest.mark.slow
def test_multiply_adds_are_those_of_the_layers():
    """Attentive statistics pooling on the tiny front end, counted by hand."""
    row = next(row for row in measure("tiny", 16000) if row.name.endswith("SSL_ASP"))
    frames, stem, channels = 16000, 0, 1
    for kernel, stride in ((10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2):
        frames = (frames - kernel) // stride + 1
        stem += frames * 32 * channels * kernel
        channels = 32
    assert frames == 49
    projection = frames * 32 * 64
    positions = (frames + 1) * 64 * (64 // 4) * 32
    layer = frames * (4 * 64 * 64 + 2 * 64 * 128) + 2 * frames * frames * 64
    attention = frames * (64 * 128 + 128)
    assert row.multiply_adds == stem + projection + positions + 2 * layer + attention + 2 * 128


@pytest.mark.slow
def test_a_large_front_end_costs_no_memory(capsys):
    before = torch.get_default_device()
    assert main(["networks", "--seconds", "1"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "SSL_AASIST " in line]
    assert "315,884,938" in line and "447,242" in line and "Tak et al., Odyssey 2022" in line
    assert "multiply-adds, 1 s" in out and "front_end.architecture = 'wav2vec2_xlsr_300m'" in out
    assert torch.get_default_device() == before
    rows = {line.split()[0]: line.split()[1:4] for line in out.splitlines() if line.split()}
    assert rows["wav2vec2"] == ["1,024", "400", "320"]
    assert rows["lfcc"] == ["60", "320", "160"]
    assert rows["raw"] == ["1", "1", "1"]
    assert "transformers" in rows and "'conformer'" in out


def test_mistakes_are_reported(capsys):
    assert main(["networks", "--front-end", "wav2vec2_bas"]) == UsageError.exit_status
    assert "Did you mean 'wav2vec2_base'?" in capsys.readouterr().err
    for seconds in ("0", "-1", "nan", "1e9"):
        assert main(["networks", f"--seconds={seconds}"]) == UsageError.exit_status
        assert "must be above 0 s" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["wavlm_base", "hubert_large"])
def test_every_known_kind_of_front_end_can_be_measured(architecture):
    assert all(row.multiply_adds > 0 for row in measure(architecture, 16000))
