"""State dicts are read wherever programs nest them."""

import pytest
import torch

from asdf.checkpoint.weights_file import state_dict_in
from asdf.errors import AsdfError


@pytest.mark.parametrize(
    "key", [None, "model", "network", "state_dict", "model_state_dict", "net", "ema"]
)
@pytest.mark.parametrize(
    "prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.module."]
)
def test_the_state_dict_is_found(key, prefix):
    state = {f"{prefix}a.weight": torch.ones(1), f"{prefix}b": torch.zeros(2)}
    state_dict = state_dict_in({key: state, "epoch": 3} if key else state, "file")
    assert list(state_dict) == ["a.weight", "b"]


def test_the_count_of_an_averaged_model_is_no_layer():
    averaged = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(2, 1))
    assert list(state_dict_in(averaged.state_dict(), "file")) == ["weight", "bias"]


def test_two_dictionaries_of_tensors_are_not_guessed_between():
    states = {name: {"a": torch.ones(1)} for name in ("generator", "critic")}
    with pytest.raises(AsdfError, match="holds no tensors, only generator, critic"):
        state_dict_in(states, "file")


def test_a_module_of_that_name_keeps_it():
    assert list(state_dict_in({"module.a": torch.ones(1), "b": torch.ones(1)}, "file")) == [
        "module.a",
        "b",
    ]


def test_a_dictionary_without_tensors_is_reported():
    with pytest.raises(AsdfError, match="holds no tensors, only epoch"):
        state_dict_in({"epoch": 3}, "file")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({7: torch.ones(1)}, "is damaged: the name of a layer is 7, which is not a string"),
        ({"w": torch.ones(2).to_sparse()}, "holds a tensor that is not of plain numbers: w"),
        ({"w": torch.ones(2, device="meta")}, "holds a tensor that is not of plain numbers: w"),
        ({"w": torch.ones(2).expand(5, 2)}, "is refused: its tensors claim 40 bytes, and"),
    ],
)
def test_layers_that_are_not_plain_are_refused(state, said):
    with pytest.raises(AsdfError, match=f"^weights file net.pt {said}"):
        state_dict_in(state, "net.pt")
    assert state_dict_in({"w": torch.ones(2).expand(4, 2)}, "net.pt")["w"].shape == (4, 2)
