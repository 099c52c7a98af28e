"""Settings on the command line, on top of all configs."""

from __future__ import annotations

from operator import attrgetter

import pytest

from asdf.settings import Settings, SettingsError

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
    ],
)
def test_overrides(init: Write, runs: Write, override: str, name: str, value: object) -> None:
    init("")
    for _ in Settings().load_settings(runs(RUNS), ["b"], [override]):
        assert attrgetter(name)(Settings()) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("recipe.training_sets=a,b", "recipe.training_sets = a,b: a is a name; "),
        (
            "paths.output_folder='x",
            "paths.output_folder = 'x: the quote ' is not closed on its line",
        ),
        ("paths.output_folder=", "paths.output_folder = : there is no value; "),
        ("network.max_epochs=two", "network.max_epochs = two: two is a name; "),
        (
            "network.max_epochs",
            "'network.max_epochs' is no override of the form section.name=value",
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
        "command line: recipe.seed is set to 1 and to 2: leave one of them out; for a run with "
        "each write a "
        "config for each"
    )
