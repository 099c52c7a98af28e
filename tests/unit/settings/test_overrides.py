"""Settings on the command line, on top of all configs."""

from __future__ import annotations

from operator import attrgetter

import pytest

from asdf.settings import Settings, SettingsError
from asdf.settings.literals import split_values
from asdf.settings.mistakes import Complaint

from .conftest import Write

RUNS = "a\nnetwork.max_epochs = 5\n\nb < a\nnetwork.minibatch_size = 7\n"


@pytest.mark.parametrize(
    ("override", "name", "value"),
    [
        ("paths.output_folder=/scratch/x", "paths.output_folder", "/scratch/x"),
        ("paths.output_folder=/d/#1 a=b'c", "paths.output_folder", "/d/#1 a=b'c"),
        ("paths.output_folder='a b'", "paths.output_folder", "a b"),
        ("network.optimizer=adam", "network.optimizer", "adam"),
        ("network.resume_epoch=auto", "network.resume_epoch", "auto"),
        ("network.resume_epoch=-3", "network.resume_epoch", -3),
        ("computing.gpu_ids=0,1", "computing.gpu_ids", (0, 1)),
        (" network.max_epochs = 4 * 2 ", "network.max_epochs", 8),
        ("network.max_steps=None", "network.max_steps", None),
        ("recipe.training_sets=['a','b']", "recipe.training_sets", ("a", "b")),
        ("paths.system_folder=2026-11-30", "paths.system_folder", "2026-11-30"),
    ],
)
def test_overrides(init: Write, runs: Write, override: str, name: str, value: object) -> None:
    init("")
    for _ in Settings().load_settings(runs(RUNS), ["b"], [override]):
        assert attrgetter(name)(Settings()) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("computing.gpu_ids=a,b", "computing.gpu_ids = a,b: a is a name; "),
        (
            "recipe.training_sets=a, b",
            "recipe.training_sets = a, b: in a shell, this tuple is written \"('a', 'b')\"",
        ),
        ("paths.system_folder=“x”", "paths.system_folder = “x”: Python cannot read it (invalid c"),
        (
            "computing.use_gpu=false",
            "computing.use_gpu = false: expected True or False or 'required', not a string; "
            "write False",
        ),
        (
            "computing.use_gpu=require",
            "computing.use_gpu = require: expected True or False or 'required', not a string; "
            "the nearest is 'required'",
        ),
        (
            "paths.output_folder='x",
            "paths.output_folder = 'x: the quote ' is not closed on its line",
        ),
        ("paths.output_folder=", "paths.output_folder = : there is no value; "),
        ("network.max_epochs=two", "network.max_epochs = two: two is a name; "),
        (
            "network.max_epochs",
            "'network.max_epochs' is not an override of the form section.name=value",
        ),
    ],
)
def test_refused_overrides(init: Write, runs: Write, override: str, message: str) -> None:
    init("")
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs(runs(RUNS), ["a"], [override])
    assert str(caught.value).startswith(f"command line: {message}")


def test_one_setting_gets_one_value(init: Write, runs: Write) -> None:
    init("")
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs(
            runs(RUNS), ["a"], ["recipe.seed=1", "sad.mode=on", "recipe.seed = 2"]
        )
    Settings().read_configs("runs.py", ["a"], ["recipe.seed=1", "recipe.seed = 1"])
    assert str(caught.value) == (
        "command line: recipe.seed is set to both 1 and 2: remove one; to run both, write a config "
        "for each"
    )


def test_points_are_read_on_top_of_every_config(init: Write, runs: Write) -> None:
    init("")
    points = [["network.max_epochs=8"], ["network.max_epochs=9", "recipe.seed=3"], []]
    names = ("network.max_epochs", "network.minibatch_size", "recipe.seed")
    values = []
    for group in Settings().read_points(runs(RUNS), ["b", "*"], points):
        values.append([tuple(config.values[name] for name in names) for config in group])
    default = Settings().network.minibatch_size
    assert values == [
        [(8, 7, 0), (9, 7, 3), (5, 7, 0)],
        [(8, default, 0), (9, default, 3), (5, default, 0)],
    ]


def test_mistakes_of_all_points_are_one_message(init: Write, runs: Write) -> None:
    init("")
    points = [["network.max_epochs=0"], ["network.max_epochs=x"], ["sad.mode=q"]]
    with pytest.raises(SettingsError) as caught:
        Settings().read_points(runs(RUNS), ["a", "c*"], points)
    lines = str(caught.value).splitlines()
    assert lines[0] == "4 mistakes in the settings:"
    assert "  command line: no config in runs.py matches 'c*'" in lines
    assert "  command line: network.max_epochs = 0: must be at least 1" in lines


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", ["1"]),
        (" 1 , 2e-5 ", ["1", "2e-5"]),
        ("a.B,'c,d',\"e,'f\"", ["a.B", "'c,d'", '"e,\'f"']),
        ("(1, 2), [3, (4,)], ()", ["(1, 2)", "[3, (4,)]", "()"]),
        ("/data/a b,../c", ["/data/a b", "../c"]),
        ("-1,--2", ["-1", "--2"]),
    ],
)
def test_values_are_split_at_the_commas_between_them(text: str, values: list[str]) -> None:
    assert split_values(text) == values


@pytest.mark.parametrize("text", ["", ",", "1,", ",1", "1,,2", "(1,2", "'a,b"])
def test_values_that_cannot_be_split(text: str) -> None:
    with pytest.raises(Complaint):
        split_values(text)
