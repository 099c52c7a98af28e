"""What the system folder of a point is called."""

import re

import pytest

from asdf.launcher.planning import point_name, value_name
from asdf.settings.catalogue import our_catalogue

NAMES = our_catalogue()


def test_a_name_states_settings_and_values_and_ends_in_the_seed():
    values = {"recipe.seed": 3, "network.max_epochs": 20, "network.initial_learning_rate": 1e-5}
    name = "initial_learning_rate_1e-05-max_epochs_20-seed3"
    assert point_name(values, NAMES) == name
    # In whichever order a command names them.
    assert point_name(dict(reversed(values.items())), NAMES) == name
    assert point_name({"recipe.seed": 0}, NAMES) == "seed0"


def test_a_short_name_that_several_sections_have_is_written_in_full():
    assert point_name({"lora.dropout": 0.5}, NAMES) == "lora.dropout_0.5"
    assert point_name({"network.max_epochs": 5}, NAMES) == "max_epochs_5"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1e-5, "1e-05"),
        (3, "3"),
        (-2.5, "-2.5"),
        (True, "True"),
        (None, "None"),
        ("adam", "adam"),
        ("asdf.networks.AASIST", "asdf.networks.AASIST"),
        ((8, 16), "8_16"),
        ((8,), "8_"),
    ],
)
def test_plain_values_are_written_as_they_are(value, name):
    assert value_name(value) == name


@pytest.mark.parametrize(
    ("value", "readable"),
    [
        ("None", "None"),
        ("3", "3"),
        ("a b", "a_b"),
        ("a/b", "b"),
        ("/data/weights/xlsr.pt", "xlsr.pt"),
        ("..", ""),
        ("", ""),
        ("é", ""),
        (("a", "b"), "a_b"),
        (("a_b",), "a_b"),
        ((), ""),
        ("x" * 40, "x" * 32),
    ],
)
def test_others_have_a_digest(value, readable):
    name = value_name(value)
    assert re.fullmatch(rf"({re.escape(readable)}-)?[0-9a-f]{{8}}", name)
    assert name.startswith(readable)


def test_different_values_have_different_names():
    values = [1, 1.5, True, None, "None", "1", "True", (1,), (1, 5), "1_5", "a b", "a_b", "a/b"]
    values += [("a", "b"), ("a,b",), (), "", "x" * 40, "x" * 41, "A", "a", "B/b", "é", "è"]
    names = {value_name(value) for value in values}
    assert len(names) == len(values)


def test_a_name_is_no_longer_than_file_systems_take():
    values = dict.fromkeys(sorted(NAMES.settings)[:20], 0.123456789)
    long = point_name({**values, "recipe.seed": 12}, NAMES)
    assert len(long) < 170 and long.endswith("-seed12")
    last = sorted(values)[-1]
    assert point_name({**values, last: 1, "recipe.seed": 12}, NAMES) != long
