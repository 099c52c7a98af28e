from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.errors import UsageError
from asdf.settings import Settings, SettingsError, list_configs, markdown_tables
from asdf.settings.catalogue import catalogue, our_catalogue, section_types
from asdf.settings.config_layers import Step, defaults, resolve
from asdf.settings.explaining import render_snapshot
from asdf.settings.loading import read_init_config
from asdf.settings.mistakes import Location

from .conftest import Write

RUNS = "base\nnetwork.max_epochs = 5  # few\n\na < base\nnetwork.max_epochs = 7\nsad.mode = 'on'\n"


def test_explain_a_setting(init: Write, runs: Write) -> None:
    init("\nnetwork.max_epochs = 3\n")
    for _ in Settings().load_settings(runs(RUNS), ["a"], ["network.max_epochs=2"]):
        assert Settings().explain("network.max_epochs") == (
            "network.max_epochs = 2\n"
            "  training ends after this number of epochs (a whole number, at least 1)\n"
            "  default           1000\n"
            "  init.py:2         3\n"
            "  runs.py:2 (base)  5  # few\n"
            "  runs.py:5 (a)     7\n"
            "  command line      2"
        )
    Settings().network.max_epochs = 4
    assert Settings().explain("network.max_epochs").splitlines()[-1] == "  recipe code  4"


def test_explain_a_path(init: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", "/s")
    monkeypatch.delenv("NONE", raising=False)
    init("paths.output_folder = '$SCRATCH/x'\npaths.database_folder = '$NONE/x'\n")
    assert Settings().explain("paths.output_folder") == (
        "paths.output_folder = '/s/x'\n"
        "  all outputs of the recipe are written below it (a string or None)\n"
        "  default    None\n"
        "  init.py:1  '$SCRATCH/x'"
    )
    assert Settings().explain("paths.database_folder").splitlines()[-1] == (
        "  paths.database_folder = '$NONE/x': the environment variable $NONE is not set; export "
        "NONE=... first, or write the path in full"
    )


def test_explain_a_section_and_all(init: Write, runs: Write) -> None:
    init("sad.threshold_db = 20\n")
    for _ in Settings().load_settings(runs(RUNS), ["a"]):
        assert Settings().explain("sad") == (
            "sad.mode = 'on'             runs.py:6 (a)\n"
            "sad.threshold_db = 20.0     init.py:1\n"
            "sad.hangover_s = 0.1        default\n"
            "sad.detector = 'energy'     default\n"
            "sad.silero_threshold = 0.5  default"
        )
        assert len(Settings().explain().splitlines()) == len(catalogue())


def test_explain_an_unknown_name() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings().explain("network.max_epoch")
    assert str(caught.value) == (
        "command line: --explain network.max_epoch: there is no setting 'network.max_epoch'; "
        "the nearest is 'network.max_epochs'"
    )


def test_the_account_of_a_config(init: Write, runs: Write) -> None:
    init("recipe.seed = 3\n")
    (text,) = Settings().load_settings(runs(RUNS), ["a"], ["network.optimizer=adam"])
    assert text == (
        "config a < base (runs.py:4)\n"
        "  network.max_epochs = 7      runs.py:5 (a)\n"
        "  network.optimizer = 'adam'  command line\n"
        "  sad.mode = 'on'             runs.py:6 (a)\n"
        "  recipe.seed = 3             init.py:1\n"
        f"  {len(catalogue()) - 4} other settings have their defaults"
    )


def test_a_saved_file_loads_to_equal_values(init: Write, runs: Write, here: Path) -> None:
    init("paths.output_folder = 'it\\'s # a \\n path'\ncomputing.gpu_ids = [1, 0]\n")
    for _ in Settings().load_settings(runs(RUNS), ["a"], ["network.max_epochs=2"]):
        Settings().recipe.seed = 5
        Settings().save("out/settings.py")
        snapshot = Settings().snapshot()
    lines = (here / "out/settings.py").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# Settings of config a < base (runs.py:4):")
    assert 'paths.output_folder = "it\'s # a \\n path"  # init.py:1, over None (default)' in lines
    assert (
        "network.max_epochs = 2  # command line, over 7 (runs.py:5 (a)), 5 (runs.py:2 (base)), "
        "1000 (default)" in lines
    )
    assert "recipe.seed = 5  # recipe code, over 0 (default)" in lines
    assert "recipe.end_stage = 100  # default" in lines
    Settings("out/settings.py")
    assert Settings().snapshot() == snapshot
    assert [path.name for path in (here / "out").iterdir()] == ["settings.py"]


def test_nothing_is_saved_that_would_not_load(here: Path) -> None:
    Settings().network.max_epochs = 0
    with pytest.raises(SettingsError, match="must be at least 1"):
        Settings().save("settings.py")
    assert list(here.iterdir()) == []


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "paths.output_folder": st.none()
    | st.text(
        st.characters(exclude_characters="$~\0", exclude_categories=("Cs",)), min_size=1
    ).filter(str.strip),
    "network.initial_learning_rate": st.floats(1e-300, 1e300),
    "network.resume_epoch": st.integers(-(10**9), 10**9) | st.just("auto"),
    "network.weight_decay_skiplist": st.lists(st.text()).map(tuple),
    "network.adam_betas": st.tuples(st.floats(0, 1), st.floats(0, 1)),
    "computing.gpu_ids": st.none() | st.lists(st.integers(0, 99), unique=True).map(tuple),
    "recipe.selected_epochs": st.lists(
        st.integers(max_value=10**9) | st.sampled_from(["best", "last"]), unique=True
    ).map(tuple),
    "front_end.architecture": st.text(min_size=1),
    "computing.use_gpu": st.booleans(),
}


@given(st.fixed_dictionaries({}, optional=VALUES), st.text(st.characters()))
@settings(deadline=None, max_examples=40)
def test_any_snapshot_is_read_back(tmp_path_factory, values, file):
    log = [
        *defaults(our_catalogue()),
        *(Step(name, value, Location(file, 3, "b")) for name, value in values.items()),
    ]
    config = resolve(f"config of {file}", log, our_catalogue())
    path = tmp_path_factory.mktemp("snapshot") / "settings.py"
    path.write_bytes(render_snapshot(config).encode())
    read = read_init_config(path)
    assert read.sections() == config.sections()
    assert {name: repr(read.values[name]) for name in values} == {
        name: repr(value) for name, value in values.items()
    }


def test_list_configs(runs: Write) -> None:
    runs(
        "# text of the file\n\n# trains\n# for long\na  # at once\nsad.mode = 'on'\n# sad.mode = "
        "'off'\n\n"
        "c < b\n\nb < a < d\n# scores\n\n# other\n#     run.py d\n#     run.py d x=1\n# at\n#\n# "
        "last\nd\n"
        "# about one setting\nsad.mode = 'on'\n# about another\nrecipe.seed = 1\n"
    )
    assert list_configs("runs.py") == (
        "a  trains for long at once\n  b < a < d  scores\n    c < b\nd  other"
    )
    assert list_configs("runs.py", ["d", "a"]) == (
        "d\n    other\n        run.py d\n        run.py d x=1\n    at\n    last\n"
        "a\n    trains for long at once"
    )
    with pytest.raises(UsageError, match=r"no config 'e' in runs\.py"):
        list_configs("runs.py", ["e"])


def test_a_list_of_configs_is_80_columns_wide(runs: Write) -> None:
    name = f"config-{'x' * 90}"
    runs(
        f"# {'some words ' * 20}\n#   {'a long command ' * 8}\n{name}\n\n"
        "# The first sentence of 0.5 s. Another one.\nshort\n"
    )
    listed = list_configs("runs.py").splitlines()
    assert [len(line) for line in listed] == [80, 77, 80, 80, 14, 34]
    assert listed[-1] == "short  The first sentence of 0.5 s"
    lines = list_configs("runs.py", [name]).splitlines()
    assert [len(line) for line in lines] == [80, 17, 80, 80, 69, 80, 52]
    assert lines[0] == "config-" + "x" * 73
    assert lines[2].startswith("    some words") and lines[5].startswith("      a long")
    assert lines[6].startswith("        ")


def test_list_configs_names_the_mistakes(runs: Write, here: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        list_configs(runs("a < b\n\nc\n\nc\n"))
    assert str(caught.value) == (
        "2 mistakes in the settings:\n"
        "  runs.py:1: 'a' inherits from 'b', which is not a config; it has c\n"
        "  runs.py:5: config 'c' is defined twice; the first is on line 3"
    )


def test_markdown_tables() -> None:
    lines = markdown_tables().splitlines()
    assert lines[:6] == [
        "## `paths`",
        "",
        "Folders of input and output.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    assert "| `network.train_clip_size` | `16000` samples | length of a training example |" in lines
    assert "| `rawboost.minF` | `20` Hz | LnL: lowest centre frequency |" in lines
    of_networks = markdown_tables(of_networks=True).splitlines()
    assert of_networks[0] == "### `back_end`"
    settings = sum(len(dataclasses.fields(section)) for section in section_types().values())
    assert sum(line.startswith("| `") for line in lines + of_networks) == settings
