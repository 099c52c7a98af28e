from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from asdf.errors import UsageError
from asdf.settings import Sections, Settings, SettingsError

from .conftest import Write

RUNS = "a\nnetwork.max_epochs = 5\n\nb < a\nnetwork.minibatch_size = 7\n"


def test_without_a_path_the_defaults() -> None:
    assert Settings().snapshot() == Sections()
    assert Settings() is Settings()


def test_a_later_path_starts_afresh_and_keeps_the_objects(init: Write) -> None:
    init("network.max_epochs = 3\n")
    held, network = Settings(), Settings().network
    init("network.minibatch_size = 8\n")
    assert Settings() is held
    assert Settings().network is network
    assert (network.max_epochs, network.minibatch_size) == (1000, 8)


def test_a_refused_file_changes_nothing(init: Write) -> None:
    init("network.max_epochs = 3\n")
    with pytest.raises(SettingsError) as caught:
        init("network.max_epochs = 4\nnetwork.optimiser = 'adam'\nsad.mode = on\n")
    assert str(caught.value) == (
        "2 mistakes in the settings:\n"
        "  init.py:2: there is no setting 'network.optimiser'; the nearest is 'network.optimizer'\n"
        "  init.py:3: sad.mode = on: on is a name; a value is a number, a string in quotes, True, "
        "False, None, "
        "or a tuple or list of these"
    )
    assert isinstance(caught.value, UsageError)
    assert Settings().network.max_epochs == 3


def test_one_config_a_turn_then_back(init: Write, runs: Write) -> None:
    init("network.max_epochs = 3\n")
    seen = []
    for _ in Settings().load_settings(runs(RUNS), ["b", "a", "a"], ["recipe.seed=9"]):
        network = Settings().network
        seen.append((network.max_epochs, network.minibatch_size, Settings().recipe.seed))
        # What a recipe sets by itself does not reach the next config.
        network.minibatch_size = 1
        Settings().recipe.seed = 1
    assert seen == [(5, 7, 9), (5, 24, 9), (5, 24, 9)]
    network = Settings().network
    assert (network.max_epochs, network.minibatch_size, Settings().recipe.seed) == (3, 24, 0)


def test_back_after_an_exception_a_break_and_a_close(init: Write, runs: Write) -> None:
    init("network.max_epochs = 3\n")
    runs(RUNS)

    def turn_that_fails() -> None:
        for _ in Settings().load_settings("runs.py", ["a"]):
            assert Settings().network.max_epochs == 5
            raise RuntimeError

    with pytest.raises(RuntimeError):
        turn_that_fails()
    assert Settings().network.max_epochs == 3
    for _ in Settings().load_settings("runs.py", ["a"]):
        break
    assert Settings().network.max_epochs == 3
    turns = Settings().load_settings("runs.py", ["a", "b"])
    next(turns)
    assert Settings().network.max_epochs == 5
    turns.close()  # type: ignore[attr-defined]
    assert Settings().network.max_epochs == 3


def test_a_loop_closed_late_does_not_disturb_what_is_in_force(init: Write, runs: Write) -> None:
    init("network.max_epochs = 3\n")
    runs(RUNS)
    abandoned = Settings().load_settings("runs.py", ["a"])
    next(abandoned)
    later = Settings().load_settings("runs.py", ["b"])
    next(later)
    abandoned.close()  # type: ignore[attr-defined]
    assert Settings().network.minibatch_size == 7
    init("network.max_epochs = 11\n")
    later.close()  # type: ignore[attr-defined]
    assert Settings().network.max_epochs == 11


def test_files_are_read_before_the_first_turn(init: Write, runs: Write) -> None:
    init("")
    turns = Settings().load_settings(runs(RUNS), ["a", "b"])
    runs("b\nnetwork.minibatch_size = 1\n")
    assert [Settings().network.minibatch_size for _ in turns] == [24, 7]


def test_all_mistakes_at_once_each_once(init: Write, runs: Write) -> None:
    init("rawboost.maxF = 500\n")
    runs(
        "base\nnetwork.max_epoch = 3\nrawboost.minF = 600\n\n"
        "a < base\nnetwork.optimizer = 'adm'\nnetwork.momentum = 1/0\n\n"
        "b < base\ncomputing.gpu_ids = (0)\n\n"
        "unused\nnetwork.max_epochs = 'x'\n"
    )
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs(
            "runs.py",
            ["a", "b", "aa"],
            ["sad.mode=full", "sad.threshold_db=0", "x", "network.maxepochs=q"],
        )
    assert str(caught.value).splitlines() == [
        "10 mistakes in the settings:",
        "  runs.py:2: there is no setting 'network.max_epoch'; the nearest is 'network.max_epochs'",
        "  runs.py:3: rawboost.minF = 600.0 (runs.py:3) is above rawboost.maxF = 500.0 (init.py:1)",
        "  runs.py:6: network.optimizer = 'adm': 'adm' is neither one of 'sgd', 'adam', 'adamw' "
        "nor a class path 'package.module.Class'; the nearest is 'adam'",
        "  runs.py:7: network.momentum = 1/0: division by zero",
        "  runs.py:10: computing.gpu_ids = (0): expected a tuple of whole numbers, not a whole "
        "number; "
        "a tuple of one value is written (0,)",
        "  command line: 'x' is not an override of the form section.name=value",
        "  command line: sad.mode = full: expected 'off', 'endpoint' or 'on'",
        "  command line: sad.threshold_db = 0: must be above 0 dB",
        "  command line: there is no setting 'network.maxepochs'; the nearest is "
        "'network.max_epochs'",
        "  command line: there is no config 'aa' in runs.py; the nearest is 'a'",
    ]
    assert Settings().network.max_epochs == 1000


def test_load_settings_checks_before_the_first_turn(init: Write, runs: Write) -> None:
    init("")
    with pytest.raises(SettingsError, match="there is no config 'c'"):
        Settings().load_settings(runs(RUNS), ["a", "c"])
    with pytest.raises(SettingsError) as caught:
        Settings().load_settings("none.py", ["a"], ["sad.mode=q"])
    assert str(caught.value) == (
        "2 mistakes in the settings:\n"
        "  none.py: there is no such file; the run configs should be there\n"
        "  command line: sad.mode = q: expected 'off', 'endpoint' or 'on'"
    )


def test_variables_are_expanded_in_each_of_several_paths(init, monkeypatch):
    monkeypatch.setenv("CORPORA", "/c")
    monkeypatch.delenv("NONE", raising=False)
    init("augmentation.noise_folders = ('$CORPORA/musan', 'noise')\n")
    assert Settings().augmentation.noise_folders == ("/c/musan", "noise")
    init("augmentation.noise_folders = ('$CORPORA/musan', '$NONE/x')\n")
    with pytest.raises(
        SettingsError, match=r"init.py:1: augmentation.noise_folders = .*variable \$NONE is not set"
    ):
        Settings().snapshot()


def test_variables_are_expanded_in_final_values_only(init, runs, monkeypatch):
    monkeypatch.delenv("LOCAL_SCRATCH", raising=False)
    monkeypatch.setenv("PROJECT", "/p")
    init("\npaths.output_folder = '$LOCAL_SCRATCH/LA'\npaths.database_folder = '${PROJECT}/LA'\n")
    runs("a\n\nb\npaths.output_folder = '$PROJECT/b'\n")
    message = (
        "init.py:2: paths.output_folder = '$LOCAL_SCRATCH/LA': the environment variable "
        "$LOCAL_SCRATCH is not set; export LOCAL_SCRATCH=... first, or write the path in full"
    )
    assert Settings().paths.database_folder == "/p/LA"
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs("runs.py", ["a", "b"])
    assert str(caught.value) == message
    with pytest.raises(SettingsError) as caught:
        Settings().snapshot()
    assert str(caught.value) == message
    for _ in Settings().load_settings("runs.py", ["b"]):
        assert Settings().paths.output_folder == "/p/b"
        assert Settings().snapshot().paths.database_folder == "/p/LA"
    monkeypatch.setenv("LOCAL_SCRATCH", "/s")
    for _ in Settings().load_settings("runs.py", ["a"]):
        assert Settings().paths.output_folder == "/s/LA"
        # A change of the environment in the middle of a run moves nothing.
        monkeypatch.setenv("LOCAL_SCRATCH", "/other")
        assert Settings().snapshot().paths.output_folder == "/s/LA"


def test_code_may_set_settings_but_no_unknown_ones() -> None:
    Settings().network.max_epochs = 3
    assert Settings().snapshot().network.max_epochs == 3
    with pytest.raises(UsageError) as caught:
        Settings().network.max_epoch = 3  # type: ignore[attr-defined]
    assert str(caught.value) == "Network has no setting 'max_epoch'; the nearest is 'max_epochs'"
    assert isinstance(caught.value, AttributeError)
    with pytest.raises(UsageError, match="there is no section 'netwrk'; the nearest is 'network'"):
        Settings().netwrk.max_epochs = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'network' is a section"):
        Settings().network = Sections().network
    with pytest.raises(AttributeError):
        _ = Settings().network.max_epoch  # type: ignore[attr-defined]


def test_what_code_sets_is_checked_and_brought_to_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", "/s")
    Settings().recipe.training_sets = ["a"]  # type: ignore[assignment]
    Settings().paths.output_folder = "$SCRATCH/x"
    snapshot = Settings().snapshot()
    assert snapshot.recipe.training_sets == ("a",)
    assert snapshot.paths.output_folder == "/s/x"
    Settings().network.max_epochs = True
    Settings().network.momentum = 3.0
    with pytest.raises(SettingsError) as caught:
        Settings().snapshot()
    assert str(caught.value).splitlines()[1:] == [
        "  recipe code: network.max_epochs = True: expected a whole number, not True",
        "  recipe code: network.momentum = 3.0: must be at most 1",
    ]


def test_a_snapshot_is_a_copy_of_its_own() -> None:
    snapshot = Settings().snapshot()
    Settings().network.max_epochs = 3
    snapshot.recipe.seed = 5
    assert snapshot.network.max_epochs == 1000
    assert Settings().recipe.seed == 0
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert copy.deepcopy(snapshot) == snapshot


def test_errors_travel_to_another_process_and_the_singleton_does_not(here: Path) -> None:
    with pytest.raises(TypeError, match=r"pass Settings\(\)\.snapshot\(\)"):
        pickle.dumps(Settings())
    with pytest.raises(SettingsError) as caught:
        Settings("none.py")
    assert str(caught.value) == "none.py: there is no such file; the init config should be there"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_execute_stage(init: Write) -> None:
    init("recipe.start_stage = 1\nrecipe.end_stage = 2\n")
    stages = [stage for stage in range(4) if Settings().recipe.execute_stage(stage)]
    assert stages == [1, 2]
