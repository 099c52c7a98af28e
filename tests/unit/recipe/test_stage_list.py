"""The stages of a recipe, as its run.py writes them."""

import pytest

from asdf.errors import UsageError
from asdf.recipe.problems import Stage, check_stages, check_work, read_stages
from asdf.settings.sections import Recipe, Sections
from tests.conftest import RECIPE

OWN = '''
from elsewhere import score

def train(run):
    """train

    much more
    """
    return train_network(run, run.build_network())

def main():
    for run in runs:
        run.stage(function=score, number=4, main_only=True)
        run.stage(2, train)
'''


NOTHING = "nothing would be done:"


def stages_in(tmp_path, text):
    (tmp_path / "run.py").write_text(text)
    return read_stages(tmp_path / "run.py")


def test_stages_are_read_without_running_anything(tmp_path):
    assert stages_in(tmp_path, OWN + "\nraise SystemExit\n") == {
        2: Stage(2, "train", frozenset({"train_network", "build_network"})),
        4: Stage(4, "score", frozenset({"score"})),
    }
    stages = read_stages(RECIPE / "run.py")
    summaries = "measure the utterances, train the network, score the chosen epochs"
    assert (
        ", ".join(stage.summary for stage in stages.values()) == f"{summaries}, report the results"
    )
    assert [stage.number for stage in stages.values()] == list(stages) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "text", ["", "not Python", "run.stage(N, train)", "run.stage(1, a)\nrun.stage(x + 1, b)", "\0"]
)
def test_stages_that_are_not_written_out_are_not_known(tmp_path, text):
    assert stages_in(tmp_path, text) is None
    assert read_stages(tmp_path / "none.py") is None


@pytest.mark.parametrize(("start", "end"), [(5, 100), (5, 5), (2, 5), (0, 1), (3, 3)])
def test_stages_that_the_recipe_does_not_have(tmp_path, start, end):
    stages = stages_in(tmp_path, OWN)
    for first, last in ((0, 100), (2, 4), (4, 100), (0, 2)):
        check_stages(Recipe(start_stage=first, end_stage=last), stages)
    chosen = f"recipe.start_stage = {start} and recipe.end_stage = {end}"
    message = rf"{chosen} do not fit the stages of this recipe: 2 \(train\), 4 \(score\)\. Choose"
    with pytest.raises(UsageError, match=message):
        check_stages(Recipe(start_stage=start, end_stage=end), stages)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, ""),
        ({"training_sets": ()}, "recipe.training_sets is empty: there is nothing to train on"),
        ({"training_sets": (), "start_stage": 2}, ""),
        ({"evaluation_sets": ()}, ""),
        ({"evaluation_sets": (), "start_stage": 2}, f"{NOTHING} recipe.evaluation_sets is empty."),
        ({"selected_epochs": (), "start_stage": 2}, f"{NOTHING} recipe.selected_epochs is empty."),
        (
            {"training_sets": (), "evaluation_sets": (), "end_stage": 0},
            f"{NOTHING} no corpus is na",
        ),
        (
            {"validation_sets": (), "evaluation_sets": (), "start_stage": 1, "resume_epoch": -3},
            f"{NOTHING} recipe.validation_sets is empty and recipe.evaluation_sets is empty.",
        ),
    ],
)
def test_a_run_that_would_do_nothing(values, reason):
    settings = Sections()
    settings.network.resume_epoch = values.pop("resume_epoch", "auto")
    for name, value in values.items():
        setattr(settings.recipe, name, value)
    stages = read_stages(RECIPE / "run.py")
    if not reason:
        check_work(settings, stages)
        return
    with pytest.raises(UsageError) as caught:
        check_work(settings, stages)
    assert str(caught.value).startswith(reason)


def test_of_a_stage_whose_work_is_not_known_nothing_is_said(tmp_path):
    settings = Sections()
    settings.recipe.evaluation_sets = settings.recipe.selected_epochs = ()
    check_work(settings, stages_in(tmp_path, "run.stage(2, imported)"))
