"""The runs of a launch: their folders, their overrides, and those that would meet."""

import re
from pathlib import Path

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.launcher.planning import PointOptions, plan_runs
from tests.recipes.voices import make_voices, trials_of

OWN = '''
from dataclasses import dataclass

from asdf.settings import OwnSettings, setting
from small_networks import Plain


@dataclass
class WideSettings(OwnSettings, section_name="wide"):
    """What the network needs."""

    hidden: int = setting(8, "the width", at_least=1)
    max_epochs: int = setting(1, "a name that another section has too", at_least=1)


class Wide(Plain):
    own_settings = WideSettings
'''


def plan(recipe, configs, *overrides, launchers=(), **options):
    path = recipe.folder / "run.py"
    return plan_runs(path, configs, overrides, PointOptions(**options), launchers)


def test_each_point_is_a_run_with_a_folder_that_names_its_values(recipe):
    sweep = {"sweep": ["network.initial_learning_rate=1e-3,1e-4"], "seeds": "0-1"}
    words = (["debug", "normed"], "network.max_epochs=1")
    made = plan(recipe, *words, launchers=["computing.gpu_ids=None"], **sweep)
    assert made.describe() == "8 runs: 2 configs x 2 points x 2 seeds"
    folders = [str(run.system.relative_to(recipe.output)) for run in made.jobs]
    points = [f"{rate}-seed{seed}" for rate in ("0.001", "0.0001") for seed in (0, 1)]
    assert folders[:4] == [f"system1-initial_learning_rate_{point}" for point in points]
    last = made.jobs[-1]
    assert (last.name, last.config) == ("normed-initial_learning_rate_0.0001-seed1", "normed")
    assert last.overrides == [
        *("network.max_epochs=1", "computing.gpu_ids=None", "network.initial_learning_rate=1e-4"),
        *("recipe.seed=1", f"paths.system_folder='{last.name}'"),
    ]
    assert last.settings.network.initial_learning_rate == 1e-4
    assert (last.settings.recipe.seed, last.settings.network.max_epochs) == (1, 1)
    assert last.settings.paths.system_folder == folders[-1]


def test_settings_that_a_class_of_the_users_declares_are_swept(recipe):
    (recipe.folder / "wide.py").write_text(OWN)
    recipe.add_configs("wide < debug\nnetwork.network_class = 'wide.Wide'\n")
    made = plan(recipe, ["wide"], sweep=["wide.hidden=64,128", "wide.max_epochs=3"])
    names = [f"system1-hidden_{hidden}-wide.max_epochs_3" for hidden in (64, 128)]
    assert [run.system.name for run in made.jobs] == names
    assert made.jobs[1].settings.wide.hidden == 128
    with pytest.raises(UsageError, match=r"wide\.hidden = 0: must be at least 1"):
        plan(recipe, ["wide"], sweep=["wide.hidden=64,0"])


def test_patterns_stand_for_the_configs_that_match(recipe):
    recipe.add_configs("debug2 < debug\npaths.system_folder = 'two'\n")
    made = plan(recipe, ["normed", "*d", "debug?"])
    assert [run.name for run in made.jobs] == ["normed", "debug2"]
    assert not made.has_points
    assert [run.name for run in plan(recipe, ["*"]).jobs] == ["debug", "normed", "debug2"]


def test_a_folder_for_all_runs_is_where_each_begins(recipe):
    made = plan(recipe, ["debug"], "paths.system_folder=group/net/", seeds="0-1")
    folders = [recipe.output / "group" / f"net-seed{seed}" for seed in (0, 1)]
    assert [run.system for run in made.jobs] == folders
    assert made.jobs[0].overrides == ["recipe.seed=0", "paths.system_folder='group/net-seed0'"]
    with pytest.raises(UsageError, match="debug-seed0 and normed-seed0 have the same system"):
        plan(recipe, ["debug", "normed"], "paths.system_folder=one", seeds="0-1")


def test_two_spellings_of_a_value_meet_in_one_folder(recipe):
    with pytest.raises(UsageError, match="have the same system folder"):
        plan(recipe, ["debug"], sweep=["network.initial_learning_rate=1,1.0"])


def test_problems_of_the_settings_are_found_before_the_first_run(recipe):
    recipe.add_configs("typo < debug\npaths.system_folder = 'typo'\nrecipe.start_stage = 7\n")
    with pytest.raises(UsageError) as caught:
        plan(recipe, ["debug", "typo"], "recipe.training_sets=('demo-trian',)", seeds="0-1")
    message = str(caught.value)
    assert message.count("config debug, typo: the recipe knows no corpus 'demo-trian'") == 1
    assert message.count("config typo: recipe.start_stage = 7") == 1
    # Each run starts its own processes.
    recipe.add_configs("two < normed\ncomputing.processes = 2\npaths.system_folder = 'two'\n")
    assert len(plan(recipe, ["debug", "two"]).jobs) == 2


def test_relative_paths_are_meant_from_the_current_folder(recipe, monkeypatch):
    monkeypatch.chdir(recipe.folder)
    made = plan(recipe, ["debug"], sweep=["front_end.weights=a.pt,None"])
    assert made.jobs[0].settings.front_end.weights == str(recipe.folder / "a.pt")
    assert re.match(r"system1-(front_end\.)?weights_a\.pt-", made.jobs[0].system.name)


def test_a_draw_states_its_grid(recipe):
    made = plan(recipe, ["debug"], sweep=["network.max_epochs=1,2,3,4"], random=2)
    assert made.describe() == "2 runs: 1 config x 2 of the 4 points of the grid"


def plan_folds(recipe, corpus, tmp_path, *overrides, **options):
    folder = make_voices(corpus, tmp_path / "voices")
    words = (f"paths.database_folder={folder}", *overrides)
    return plan(recipe, ["debug"], *words, folds="attack:2", **options)


def test_each_fold_of_a_point_is_a_run(recipe, corpus, tmp_path):
    made = plan_folds(recipe, corpus, tmp_path, seeds="0-1", sweep=["network.max_epochs=1,2"])
    assert made.describe() == "8 runs: 1 config x 2 points x 2 folds x 2 seeds"
    one, two = "attack_A01_A02-fold1of2", "attack_A03-fold2of2"
    names = [
        f"system1-max_epochs_1-{end}" for end in (f"{one}-seed0", f"{two}-seed0", f"{one}-seed1")
    ]
    assert [run.system.name for run in made.jobs][:3] == names
    first = made.jobs[0]
    assert first.name == "debug-max_epochs_1-attack_A01_A02-fold1of2-seed0"
    recipes = [run.settings.recipe for run in made.jobs[:2]]
    genuine = [trial for trial in trials_of(tmp_path / "voices", "train") if trial[2] == "-"]
    counts = {name: sum(trial[0] == name for trial in genuine) for name in ("anna", "bert")}
    largest = max(counts, key=lambda name: counts[name])
    smallest = ({"anna", "bert"} - {largest}).pop()
    assert [settings.leave_out_speakers for settings in recipes] == [(largest,), (smallest,)]
    assert recipes[0].leave_out == ("attack", "A01", "A02")
    assert recipes[1].leave_out == ("attack", "A03")
    for settings in recipes:
        assert settings.evaluate_left_out
        assert settings.evaluation_sets == ("demo-train+demo-dev",)
        assert settings.validation_sets == ("demo-dev",)
    assert first.overrides[-1] == f"paths.system_folder='{first.system.name}'"


@pytest.mark.parametrize(
    ("overrides", "sweep", "message"),
    [
        (["recipe.leave_out=('attack', 'A01')"], [], "leave_out is set for all runs and named by"),
        (
            [],
            ["recipe.evaluate_left_out=True,False"],
            "evaluate_left_out is named by --folds and na",
        ),
    ],
)
def test_folds_that_cannot_be_run_are_refused(recipe, corpus, tmp_path, overrides, sweep, message):
    with pytest.raises(UsageError, match=rf"recipe\.{message}.*: remove one"):
        plan_folds(recipe, corpus, tmp_path, *overrides, sweep=sweep)


def test_a_fold_that_leaves_nothing_to_choose_by_is_refused(recipe, corpus, tmp_path):
    folder = make_voices(corpus, tmp_path / "voices")
    attacks = {utterance: attack for _, utterance, attack in trials_of(folder, "dev")}
    lines = (corpus / "dev_list.txt").read_text().splitlines(keepends=True)
    (folder / "dev_list.txt").unlink()
    with (folder / "dev_list.txt").open("w") as file:
        file.writelines(line for line in lines if attacks[Path(line.split()[0]).stem] != "A03")
    with pytest.raises(AsdfError) as caught:
        plan(recipe, ["debug"], f"paths.database_folder={folder}", folds="attack:2", seeds="0-2")
    message = str(caught.value)
    assert message.startswith("the list demo-dev.without-attack=A01,A02.speaker=")
    assert message.count("none of them spoof: an EER needs both classes") == 1
