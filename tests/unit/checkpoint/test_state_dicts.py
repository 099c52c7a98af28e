"""State dicts are read wherever programs nest them."""

import pytest
import torch

from asdf.checkpoint.weights_file import state_dict_in
from asdf.errors import AsdfError


@pytest.mark.parametrize("key", [None, "model", "network", "state_dict", "model_state_dict"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_state_dict_is_found(key, prefix):
    state = {f"{prefix}a.weight": torch.ones(1), f"{prefix}b": torch.zeros(2)}
    state_dict = state_dict_in({key: state, "epoch": 3} if key else state, "file")
    assert list(state_dict) == ["a.weight", "b"]


def test_a_module_of_that_name_keeps_it():
    assert list(state_dict_in({"module.a": torch.ones(1), "b": torch.ones(1)}, "file")) == [
        "module.a",
        "b",
    ]


def test_a_dictionary_without_tensors_is_reported():
    with pytest.raises(AsdfError, match="holds no tensors, only epoch"):
        state_dict_in({"epoch": 3}, "file")
