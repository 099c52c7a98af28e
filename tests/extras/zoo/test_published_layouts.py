"""Detectors in their authors' layouts: read, scored with their length, trained on, given back.

What they compute is compared with their authors' code in tests/unit/networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.importing import Imported, import_detector
from asdf.extras.zoo.networks.spectra import SplineMap
from asdf.interchange import read_detector
from asdf.interchange.fairseq import fairseq_names
from asdf.interchange.hugging_face import hugging_face_names
from asdf.networks.front_ends.architectures import KNOWN
from tests.unit.networks.official import official_case

NARROW = replace(KNOWN["tiny"], dimension=8, layers=1, feed_forward=16)


@dataclass(frozen=True)
class Case:
    """A published layout.

    Attributes:
        official: Name of the case whose weights its back end has.
        layout: Beginning of what `import` says it was recognised as.
        samples: Length that its authors score.
        settings: what the file cannot say, for these small sizes.
        sizes: what `import` says of its sizes.
        export: Format that gives it back.
        prefix: Beginning of the names of the front end's layers.
    """

    official: str
    layout: str
    samples: int
    export: str
    settings: dict[str, object] = field(default_factory=dict)
    sizes: tuple[str, ...] = ()
    prefix: str = "ssl_model.model."


def spectra(official: str, layout: str) -> Case:
    settings = {"front_end.architecture": NARROW.to_text(), "back_end.spectra_samples": 8000}
    return Case(official, layout, 64600, "published", settings, prefix="ssl_encoder.model.")


CASES = {
    "XLSR-Mamba": Case(
        "mamba",
        "XLSR-Mamba: wav2vec 2.0 and two columns of Mamba blocks",
        66800,
        "ssl_anti_spoofing",
        {"front_end.architecture": NARROW.to_text()},
        ("mamba_dimension = 20", "mamba_blocks = 3", "mamba_states = 16"),
    ),
    "Spectra-AASIST": spectra("spectra_aasist", "Spectra-AASIST: wav2vec 2.0 and AASIST with four"),
    "Spectra-AASIST3": spectra("spectra_aasist3", "Spectra-AASIST3: the same with Kolmogorov"),
    "Spectra-0": spectra("spectra_ecapa", "Spectra-0: wav2vec 2.0 and ECAPA-TDNN"),
}


def layers_of(case: Case) -> dict[str, Tensor]:
    """Return the layers of a file: the official case's, and a small front end's."""
    state = dict(official_case(case.official).state)
    for name in list(state):
        if name.endswith("running_var"):
            state[name.replace("running_var", "num_batches_tracked")] = torch.tensor(3)
    if "front_end.architecture" in case.settings:
        torch.manual_seed(0)
        layers = NARROW.build().state_dict()
        if case.prefix == "ssl_model.model.":
            front_end = fairseq_names(layers, NARROW)
        else:
            front_end = hugging_face_names(layers)
        state |= {case.prefix + name: tensor for name, tensor in front_end.items()}
    if case.official == "spectra_aasist3":
        add_knots(state)
    return state


def add_knots(state: dict[str, Tensor]) -> None:
    """Add the knots of splines, which files of Spectra-AASIST3 hold for each layer."""
    for name, tensor in list(state.items()):
        if name.endswith(".spline_weight"):
            knots = SplineMap(tensor.shape[1], 1).grid
            state[name.replace("spline_weight", "grid")] = knots


def write(state: dict[str, Tensor], path: Path) -> Path:
    """Write a file as torch.save does; of other forms is test_any_checkpoint.py."""
    torch.save(state, path)
    return path


def train_further(
    imported: Imported, waveforms_BT: Tensor, labels_B: Tensor, learning_rate: float, steps: int
) -> None:
    """Train a detector for some steps, in which its loss has to fall, and keep what it learnt."""
    network = imported.network.train()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=learning_rate)
    losses = []
    for _ in range(steps):
        torch.manual_seed(0)
        loss = torch.nn.functional.cross_entropy(network(waveforms_BT)[1], labels_B)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
    imported.file.state.clear()
    imported.file.state.update(network.eval().state_dict())


@pytest.mark.slow_but("XLSR-Mamba")
@pytest.mark.parametrize("name", CASES)
def test_it_is_recognised_by_its_layers_and_scored_as_published(name, tmp_path, capsys):
    case = CASES[name]
    state = layers_of(case)
    path = write(state, tmp_path / "file.pth")
    words = [f"{setting}={value}" for setting, value in case.settings.items()]
    assert main(["import", str(path), str(tmp_path / "net.pt"), *words]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"recognised: {case.layout}")
    assert f"scored, as published: first {case.samples:,} samples" in said
    for size in case.sizes:
        assert f"back_end.{size}, by the shapes of the layers\n" in said
    assert "left out: nothing\nmissing: nothing\n" in said
    # By its name, too, without an import before: the same numbers.
    network, file = read_detector(tmp_path / "net.pt")
    scored = file.to_sections().network
    # Spectra's network repeats a shorter recording itself, after its pre-emphasis.
    shortest = 400 if case.prefix == "ssl_encoder.model." else case.samples
    assert scored.min_evaluation_utterance_length_in_samples == shortest
    assert scored.max_evaluation_utterance_length_in_samples == case.samples
    again = import_detector(path, case.settings).network
    torch.testing.assert_close(network.state_dict(), again.state_dict(), rtol=0, atol=0)


def test_moved_knots_are_refused_by_the_name_of_the_layer(tmp_path):
    case = CASES["Spectra-AASIST3"]
    state = layers_of(case)
    name = "aasist.branch2.pool_hS.proj.grid"
    state[name] = state[name].clone()
    state[name][0, 7] += 0.01
    with pytest.raises(AsdfError, match=f"the layer {name} has splines whose knots"):
        import_detector(write(state, tmp_path / "file.pth"), case.settings)


@pytest.mark.slow_but("XLSR-Mamba")
@pytest.mark.parametrize("name", CASES)
def test_it_is_trained_further_and_given_back(name, tmp_path, capsys):
    """Before training each tensor is the file's, bit by bit; after it the layout is the same."""
    case = CASES[name]
    state = layers_of(case)
    imported = import_detector(write(state, tmp_path / "file.pth"), case.settings)
    network = imported.network
    write_network_file(tmp_path / "net.pt", imported.file)
    words = ["export", str(tmp_path / "net.pt"), "--format", case.export]
    assert main([*words, str(tmp_path / "back.pth")]) == 0
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    assert back.keys() == state.keys()
    for layer, tensor in state.items():
        assert torch.equal(back[layer], tensor), layer

    generator = torch.Generator().manual_seed(1)
    waveforms_BT = 0.1 * torch.randn(4, 8000, generator=generator)
    waveforms_BT[2:] = waveforms_BT[2:].cumsum(1) / 30
    labels_B = torch.tensor([0, 0, 1, 1])
    train_further(imported, waveforms_BT, labels_B, learning_rate=2e-3, steps=3)
    write_network_file(tmp_path / "trained.pt", imported.file)
    words[1] = str(tmp_path / "trained.pt")
    assert main([*words, str(tmp_path / "trained.pth")]) == 0
    retrained = import_detector(tmp_path / "trained.pth", case.settings).network
    with torch.no_grad():
        expected = network(waveforms_BT)[1]
        torch.testing.assert_close(retrained(waveforms_BT)[1], expected, rtol=0, atol=0)
