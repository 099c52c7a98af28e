"""Names of parts of a front end, as settings have them: a slip is found before a network exists."""

import re

import pytest

from asdf.settings.catalogue import catalogue
from asdf.settings.front_end_values import LayerRange, read_layer_range
from asdf.settings.mistakes import Complaint
from asdf.settings.value_checks import check_value


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("layers", LayerRange(1, None)),
        ("layers:3", LayerRange(3, 3)),
        ("layers:1-12", LayerRange(1, 12)),
        ("layers:13-", LayerRange(13, None)),
        ("layers:", None),
        ("layers:-3", None),
        ("norms", None),
    ],
)
def test_ranges_of_layers(text, meaning):
    assert read_layer_range(text) == meaning


def test_the_end_of_a_range_is_in_it():
    assert list(LayerRange(2, 3).indices(5)) == [1, 2]
    assert list(LayerRange(4, None).indices(5)) == [3, 4]


PARTS, TARGETS = "front_end.trained_parts", "lora.targets"


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        (PARTS, ("layer:3",), "'layer:3' is not a part; it is one of convolutions, projection, po"),
        (PARTS, ("norm",), "the nearest is 'norms'"),
        (PARTS, ("layers:0-3",), "'layers:0-3': layers are counted from 1, as in front_end.layer"),
        (PARTS, ("layers:4-3",), "'layers:4-3': the last layer comes before the first"),
        (PARTS, (), "is empty; set front_end.frozen = True"),
        (TARGETS, ("atention",), "'atention' is not a part; it is one of attention, feed_forward"),
        (TARGETS, ("norms",), "'norms' is not a part"),
        (TARGETS, (), "is empty; set lora.rank = 0"),
    ],
)
def test_what_is_no_part(setting, value, problem):
    with pytest.raises(Complaint, match=re.escape(problem)):
        check_value(catalogue()[setting], value)
    assert check_value(catalogue()[TARGETS], ["attention", "*.fc1"])
