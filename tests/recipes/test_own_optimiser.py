"""A user's optimiser and schedule, in files next to the recipe, by documented interfaces alone."""

import shutil

import pytest

from tests import user_optimisers
from tests.distributed.test_exactness import metrics
from tests.recipes.resuming import assert_resumes_exactly

CONFIG = """
own < normed
network.optimizer = 'my_optimiser.Lion'
network.initial_learning_rate = 0.001
network.weight_decay = 0.1
network.max_epochs = 2
network.checkpoint_interval_steps = 2
network.schedule = 'my_schedules.triangle'
network.print_interval = 1
"""

SCHEDULES = """
def triangle(settings, progress):
    return 1 - abs(2 * progress.done - 1)
"""


@pytest.fixture
def own(recipe):
    shutil.copy(user_optimisers.__file__, recipe.folder / "my_optimiser.py")
    return recipe.with_files(CONFIG, my_schedules=SCHEDULES)


def test_it_trains_and_its_file_is_saved_with_the_run(own, capsys):
    words = ("own", "recipe.end_stage=1", "optimizer.betas=(0.8, 0.95)")
    own.call(capsys, *words).ok()
    code = sorted(path.name for path in (own.system("normed") / "code").glob("*.py"))
    assert code == ["my_optimiser.py", "my_schedules.py", "run.py", "small_networks.py"]
    lines = [line for line in metrics(own.system("normed")) if line["kind"] == "step"]
    # 26 utterances an epoch, 4 a step.
    done = [(epoch * 26 + start) / 52 for epoch in range(2) for start in range(0, 26, 4)]
    shares = [line["learning_rate"] / 0.001 for line in lines]
    assert shares == pytest.approx([1 - abs(2 * part - 1) for part in done])
    content = own.load("epoch.2", "normed")
    state = content["optimizer_state_dict"]
    assert state["class"] == "Lion"
    assert [group["weight_decay"] for group in state["param_groups"]] == [0.0, 0.1]
    assert {group["betas"] for group in state["param_groups"]} == {(0.8, 0.95)}
    assert content["settings"]["optimizer"] == {"betas": (0.8, 0.95)}
    assert all(list(moments) == ["mean"] for moments in state["state"].values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimiser", "kill", "processes"),
    [("my_optimiser.Lion", "0:5", 1), ("torch.optim.NAdam", "1:5", 2)],
)
def test_a_killed_run_ends_as_one_never_killed(own, optimiser, kill, processes):
    words = ("own", f"network.optimizer={optimiser}")
    assert_resumes_exactly(own, *words, processes=processes, TEST_KILL=kill)


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        ("my_optimiser.Loin", 2, "Did you mean 'Lion'?"),
        ("my_optimizer.Lion", 2, "Did you mean 'my_optimiser'?"),
        ("my_optimiser.Forgetful", 2, "it does not continue as without a stop"),
        ("torch.optim.LBFGS", 2, "it needs a closure"),
        ("torch.optim.RAdam network.schedule=my_schedules.trangle", 2, "mean 'triangle'?"),
        ("adm", 2, "the nearest is 'adam'"),
    ],
)
def test_what_does_not_fit_is_reported_before_anything_is_measured(
    own, capsys, path, status, problem
):
    outcome = own.call(capsys, "own", *f"network.optimizer={path}".split())
    outcome.refused(problem, status=status)
    assert "stage 0" not in outcome.output
