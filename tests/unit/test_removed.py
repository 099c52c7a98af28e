"""Names that have left get one sentence, and change nothing where they changed nothing."""

import re
from ast import literal_eval
from dataclasses import replace

import pytest

from asdf import removed
from asdf.__main__ import COMMANDS, main
from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError
from asdf.networks import DetectorNetwork
from asdf.removed import Removed
from asdf.settings import Settings
from asdf.settings import catalogue as names_of_settings
from asdf.settings.catalogue import catalogue, class_path_of, section_types
from asdf.settings.class_path import find_class, find_named
from asdf.settings.fields import renamed, setting
from asdf.settings.mistakes import SettingsError
from asdf.settings.value_checks import check_value
from tests.unit.conftest import write_small_network


@pytest.fixture
def left(monkeypatch):
    """A setting, a class, a command and an option that have left, whatever else has."""
    monkeypatch.setitem(removed.SETTINGS, "network.gone", Removed(None, "Write network.loss."))
    monkeypatch.setitem(removed.SETTINGS, "network.heard", Removed(0, "It is fixed.", scores=True))
    monkeypatch.setitem(removed.SETTINGS, "network.several", Removed((), "Name one."))
    monkeypatch.setitem(removed.CLASSES, "asdf.networks.Gone", "Use asdf.networks.AASIST.")
    monkeypatch.setitem(removed.CLASSES, "Gone", "Use asdf.networks.AASIST.")
    monkeypatch.setitem(removed.COMMANDS, "gone", "evaluate does it.")
    monkeypatch.setitem(removed.OPTIONS, "score --gone", "Use --csv.")


def read(tmp_path, *lines: str) -> None:
    (tmp_path / "init_config.py").write_text("")
    (tmp_path / "run_configs.py").write_text("small\n" + "".join(f"{line}\n" for line in lines))
    settings = Settings(tmp_path / "init_config.py")
    settings.read_configs(tmp_path / "run_configs.py", ["small"])


def test_a_config_with_a_setting_that_has_left_is_refused_in_a_sentence(left, tmp_path) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, "network.gone = 3")
    assert str(error.value).endswith(":2: network.gone has left ASDF. Write network.loss.")
    read(tmp_path, "network.gone = None", "network.heard = 0")
    with pytest.raises(SettingsError, match=r"Gone has left ASDF. Use asdf.networks.AASIST."):
        read(tmp_path, "network.schedule = 'Gone'")


def test_a_network_scores_as_before_unless_the_setting_scored(left, tmp_path, caplog) -> None:
    plain = read_network_file(write_small_network(tmp_path / "plain.pt"))
    entries = {name: dict(section) for name, section in plain.settings.items()}
    entries["network"] |= {"gone": 3, "several": []}
    plain.settings = entries
    assert "gone" not in vars(plain.to_sections().network)
    assert "network.gone = 3. network.gone has left ASDF. Write network.loss." in caplog.text
    assert "several" not in caplog.text
    entries["network"]["heard"] = 0
    plain.to_sections()
    entries["network"]["heard"] = 1
    with pytest.raises(AsdfError, match=r"network\.heard = 1. network\.heard has left ASDF"):
        plain.to_sections()


def test_a_renamed_setting_keeps_its_value_and_says_so(
    tmp_path, monkeypatch, caplog, request
) -> None:
    known = catalogue()["network.max_epochs"]
    declared = renamed("network.epochs", setting(1000, at_least=1))
    assert declared.default == 1000 and declared.metadata["at_least"] == 1
    monkeypatch.setitem(catalogue(), known.full, replace(known, metadata=declared.metadata))
    names_of_settings._names_today.cache_clear()
    request.addfinalizer(names_of_settings._names_today.cache_clear)
    names_of_settings.name_today.cache_clear()
    read(tmp_path, "network.epochs = 7")
    settings = Settings()
    for overrides, epochs in (([], 7), (["network.epochs=8"], 8)):
        configs = settings.read_configs(tmp_path / "run_configs.py", ["small"], overrides)
        assert configs[0].values["network.max_epochs"] == epochs
    file = read_network_file(write_small_network(tmp_path / "plain.pt"))
    entries = {name: dict(section) for name, section in file.settings.items()}
    entries["network"] |= {"epochs": 9}
    del entries["network"]["max_epochs"]
    file.settings = entries
    assert file.to_sections().network.max_epochs == 9
    places = [f"{tmp_path / 'run_configs.py'}:2", "command line", str(file.path)]
    remark = "network.epochs is named network.max_epochs today."
    assert caplog.messages == [f"{place}: {remark}" for place in places]
    with pytest.raises(SettingsError, match=r"network.max_epochs is set twice"):
        read(tmp_path, "network.epochs = 7", "network.max_epochs = 8")


@pytest.mark.parametrize("setting", ["recipe.sampler", "network.schedule"])
def test_a_network_trained_with_a_class_that_has_left_scores_as_before(
    left, tmp_path, caplog, setting
) -> None:
    file = read_network_file(write_small_network(tmp_path / "plain.pt"))
    section, name = setting.split(".")
    entries = {key: dict(values) for key, values in file.settings.items()}
    entries.setdefault(section, {})[name] = "Gone"
    file.settings = entries
    assert getattr(getattr(file.to_sections(), section), name) != "Gone"
    assert "Gone has left ASDF. Use asdf.networks.AASIST." in caplog.text


def test_commands_options_and_classes_that_have_left(left, tmp_path, capsys) -> None:
    assert main(["gone", "x"]) == 2
    assert capsys.readouterr().err == "error: gone has left ASDF. evaluate does it.\n"
    assert main(["score", "--gone=3"]) == 2
    assert capsys.readouterr().err == "error: score --gone has left ASDF. Use --csv.\n"


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("fp16", "computing.precision='bf16' or 'fp16'"),
        ("training_args.per_device_train_batch_size", "network.minibatch_size=16"),
        ("network.learning_rate", "network.initial_learning_rate=1e-5"),
        ("gpu_mode", "computing.processes=2, or torchrun"),
        ("computing.num_gpus", "computing.processes=2, or torchrun"),
        ("Compute_Setup", "computing.processes=2, or torchrun"),
        ("hub.push_to_hub", "python -m asdf export NETWORK --push ORG/NAME"),
    ],
)
def test_a_config_with_a_word_of_another_framework_is_told_ours(tmp_path, word, ours) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, f"{word} = 2")
    told = f":2: '{word}' is a word of other frameworks; write {ours}"
    assert told in str(error.value)
    assert "nearest" not in str(error.value)


def test_words_of_other_frameworks_name_settings_that_take_the_value() -> None:
    words = [word for several in removed.OTHERS for word in several.split()]
    assert len(set(words)) == len(words)
    assert not {f"{kind}.{word}" for kind in section_types() for word in words} & (
        catalogue().keys() - {"front_end.learning_rate"}
    )
    for told in removed.OTHERS.values():
        written = re.findall(r"(\w+\.\w+)=('[^']*'|\(.*\)|[\w.-]+)", told)
        assert written or told.startswith(("torchrun", "python -m asdf")), told
        for name, value in written:
            check_value(catalogue()[name], literal_eval(value))


def test_the_default_network_of_the_original_is_a_page(tmp_path) -> None:
    path = "asdf.src.networks.architectures2.DefaultNetwork"
    with pytest.raises(
        AsdfError, match=r"has left ASDF\. recipes/ideas/default_network\.py has it\."
    ):
        find_class(path, tmp_path, "network.network_class", DetectorNetwork)


@pytest.mark.parametrize("name", ["MinDCF", "ActDCF", "Cllr", "MinCllr"])
def test_metrics_that_were_classes_are_functions(tmp_path, name) -> None:
    setting = "network.validation_metric"
    with pytest.raises(AsdfError, match=rf"{name} has left ASDF\. Choose") as error:
        find_named(f"asdf.metrics.validation.{name}", tmp_path, setting)
    chosen = re.search(r"Choose '(.*)'\.", str(error.value))[1]
    assert find_named(class_path_of(setting, chosen), tmp_path, setting)([2, 1], [0, -1]) >= 0


def test_what_has_left_is_not_there() -> None:
    assert not removed.SETTINGS.keys() & catalogue().keys()
    assert not removed.COMMANDS.keys() & COMMANDS.keys()
    for why in (
        *(entry.why for entry in removed.SETTINGS.values()),
        *(*removed.CLASSES.values(), *removed.COMMANDS.values(), *removed.OPTIONS.values()),
    ):
        assert why.endswith("."), why
