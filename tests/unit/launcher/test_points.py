"""The options that name points: what they mean, what is refused, and what a folder is called."""

import re

import pytest

from asdf.launcher.planning import PointOptions, point_name, read_points_options, value_name
from asdf.settings.catalogue import our_catalogue
from asdf.settings.mistakes import Collector


def read(overrides=(), **options):
    """Return the overrides of each point."""
    collector = Collector()
    points = read_points_options(PointOptions(**options), overrides, collector)
    assert collector.mistakes == []
    return list(map(list, points.all()))


def mistakes_of(overrides=(), **options) -> list[str]:
    collector = Collector()
    read_points_options(PointOptions(**options), overrides, collector)
    return [mistake.text for mistake in collector.mistakes]


def test_without_options_each_config_is_one_run():
    assert read() == [[]]


def test_seeds_are_numbers_and_ranges():
    assert read(seeds="0-2") == [["recipe.seed=0"], ["recipe.seed=1"], ["recipe.seed=2"]]
    assert read(seeds="7, 3-4") == [["recipe.seed=7"], ["recipe.seed=3"], ["recipe.seed=4"]]


def test_sweeps_make_a_grid_whose_innermost_loop_is_the_seeds():
    sweeps = ["network.max_epochs=1,2", "own.kind='a,b',c", "recipe.seed=8,9"]
    grid = read(sweep=sweeps)
    assert len(grid) == 8
    assert grid[:3] == [
        ["network.max_epochs=1", "own.kind='a,b'", "recipe.seed=8"],
        ["network.max_epochs=1", "own.kind='a,b'", "recipe.seed=9"],
        ["network.max_epochs=1", "own.kind=c", "recipe.seed=8"],
    ]
    assert grid[-1] == ["network.max_epochs=2", "own.kind=c", "recipe.seed=9"]


def test_values_hold_commas_in_brackets_and_quotes():
    points = [["own.widths=(1, 2)"], ["own.widths=[3]"], ["own.widths=None"]]
    assert read(sweep=["own.widths=(1, 2),[3],None"]) == points


TWICE, SET = "and named by", "is set for all runs and named by"
A_SWEEP = "--sweep section.name=value,value"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": "3-1"}, "--seeds 3-1: the range 3-1 ends before it begins"),
        ({"seeds": "1,2,0-3"}, "--seeds 1,2,0-3: 1 is named 2 times"),
        ({"seeds": "1,,2"}, "--seeds 1,,2: write numbers and ranges, such as 0-4 or 0,3,7-9"),
        ({"seeds": "-1"}, "--seeds -1: write numbers and ranges, such as 0-4 or 0,3,7-9"),
        ({"sweep": ["own.x"]}, "--sweep own.x: write section.name=value,value"),
        ({"sweep": ["own.x="]}, "--sweep own.x=: a value is missing before or after a comma"),
        ({"sweep": ["own.x=(1,2"]}, "--sweep own.x=(1,2: the bracket ( is not closed"),
        ({"sweep": ["own.x='a,b"]}, "--sweep own.x='a,b: the quote ' is not closed on its line"),
        ({"sweep": ["own.x=1e-1,0.1"]}, "--sweep own.x=1e-1,0.1: 1e-1 and 0.1 are the same value"),
        ({"sweep": ["own.x=1,1"]}, "--sweep own.x=1,1: 1 and 1 are the same value"),
        ({"sweep": ["own.x=a,'a'"]}, "--sweep own.x=a,'a': a and 'a' are the same value"),
        (
            {"sweep": ["own.x=1,2", "own.x=3"]},
            f"own.x is named by --sweep {TWICE} --sweep: remove one",
        ),
        ({"sweep": ["own.x=1,2"], "overrides": ["own.x=3"]}, f"own.x {SET} --sweep: remove one"),
        (
            {"seeds": "0-1", "overrides": ["recipe.seed=3"]},
            f"recipe.seed {SET} --seeds: remove one",
        ),
        ({"random": 2}, f"--random 2: there is no grid to draw from; define one with {A_SWEEP}"),
        ({"random": 4, "sweep": ["own.x=1,2,3"]}, "--random 4: the grid has 3 points only"),
        ({"random": 0, "sweep": ["own.x=1"]}, "--random 0: at least one point is needed"),
    ],
)
def test_mistakes(options, message):
    assert mistakes_of(**options) == [message]


def test_values_with_a_mistake_do_not_hide_a_setting_that_is_set_twice():
    assert mistakes_of(seeds="0,0", overrides=["recipe.seed=3"]) == [
        "--seeds 0,0: 0 is named 2 times",
        "recipe.seed is set for all runs and named by --seeds: remove one",
    ]
    assert len(mistakes_of(sweep=["own.x=1,1"], overrides=["own.x=3"])) == 2


def test_a_slip_of_the_hand_takes_no_memory():
    (message,) = mistakes_of(seeds="0-9999999999")
    assert "10,000,000,000 runs per config: more than 10,000 are refused" in message
    values = ",".join(map(str, range(100)))
    sweeps = [f"own.{name}={values}" for name in "abcdefgh"]
    (message,) = mistakes_of(sweep=sweeps)
    assert message.startswith("10,000,000,000,000,000 runs per config")
    (message,) = mistakes_of(sweep=sweeps, random=3)
    assert "more than 1,000,000: name fewer values" in message
    # The config itself is still read, and its mistakes are reported too.
    assert list(read_points_options(PointOptions(sweep=sweeps), (), Collector()).all()) == [()]
    # What counts is the number of runs, not that of the points that they are drawn from.
    assert len(read(sweep=[*sweeps[:2], "own.z=1,2"], random=3)) == 3
    (message,) = mistakes_of(sweep=sweeps[:2], random=3, seeds="0-9998")
    assert message.startswith("29,997 runs per config")


GRID = ["own.a=1,2,3,4,5,6", "own.b=x,y,z,u,v"]
# As computed once: a draw must stay what it was, in every version and on every machine.
DRAWN = [[f"own.a={a}", f"own.b={b}"] for a, b in ("2z", "3y", "3v", "4x", "5x", "5z", "5u")]


def test_a_draw_is_the_same_whenever_it_is_repeated():
    drawn = read(sweep=GRID, random=7)
    assert drawn == DRAWN
    turned = read(sweep=GRID[::-1], random=7)
    assert turned != drawn and set(map(frozenset, turned)) == set(map(frozenset, drawn))


def test_larger_draws_and_grids_take_over_what_smaller_ones_drew():
    drawn = read(sweep=GRID, random=7)
    more = read(sweep=GRID, random=12)
    assert all(point in more for point in drawn)
    assert read(sweep=GRID, random=30) == read(sweep=GRID)
    wider = read(sweep=["own.a=1,2,3,4,5,6,7", GRID[1]], random=7)
    new = [point for point in wider if point not in drawn]
    # A point drawn before is not drawn now only where a new one comes before it.
    assert all("own.a=7" in point for point in new)


def test_every_seed_gets_the_points_that_were_drawn():
    drawn = read(sweep=GRID, random=2)
    with_seeds = read(sweep=GRID, random=2, seeds="0-1")
    assert with_seeds == [[*point, f"recipe.seed={seed}"] for point in drawn for seed in (0, 1)]


def test_points_are_drawn_evenly():
    counts = dict.fromkeys("123456", 0)
    for other in range(200):
        for point in read(sweep=[*GRID, f"own.c={other}"], random=3):
            counts[point[0].partition("=")[2]] += 1
    # 600 draws of 6 values: 100 each, with a standard deviation of 9.
    assert all(65 < count < 135 for count in counts.values())


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
        *((1e-5, "1e-05"), (3, "3"), (-2.5, "-2.5"), (True, "True"), (None, "None")),
        *(("adam", "adam"), ("asdf.networks.AASIST", "asdf.networks.AASIST")),
        *(((8, 16), "8_16"), ((8,), "8_")),
    ],
)
def test_plain_values_are_written_as_they_are(value, name):
    assert value_name(value) == name


@pytest.mark.parametrize(
    ("value", "readable"),
    [
        *(("None", "None"), ("3", "3"), ("a b", "a_b"), ("a/b", "b"), ("..", ""), ("", "")),
        *(("/data/weights/xlsr.pt", "xlsr.pt"), ("é", ""), ("x" * 40, "x" * 32)),
        *((("a", "b"), "a_b"), (("a_b",), "a_b"), ((), "")),
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
