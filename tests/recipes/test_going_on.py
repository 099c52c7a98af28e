"""A run that goes on in a folder: what it removes, what it reports, and what it records."""

import shutil

TRAIN = ("debug", "recipe.end_stage=1")


def test_a_checkpoint_that_a_kill_left_is_removed_when_a_newer_one_is_gone_on_from(recipe, capsys):
    assert recipe.call(capsys, *TRAIN, "network.max_epochs=2").status == 0
    networks = recipe.system() / "networks"
    # As a kill between the writing of epoch.2.pt and the removal of resume.pt leaves it.
    shutil.copy(networks / "epoch.1.pt", networks / "resume.pt")
    outcome = recipe.call(capsys, *TRAIN, "network.max_epochs=2")
    assert outcome.status == 0, outcome.output
    assert "going on from epoch.2.pt" in outcome.output
    assert sorted(path.name for path in networks.glob("*.pt")) == ["epoch.1.pt", "epoch.2.pt"]


def test_a_newer_checkpoint_inside_an_epoch_stays(recipe, capsys):
    assert recipe.call(capsys, *TRAIN, "network.max_epochs=2").status == 0
    networks = recipe.system() / "networks"
    (networks / "epoch.2.pt").rename(networks / "resume.pt")
    outcome = recipe.call(capsys, *TRAIN, "network.max_epochs=2")
    assert "going on from resume.pt" in outcome.output
    assert sorted(path.name for path in networks.glob("*.pt")) == ["epoch.1.pt", "resume.pt"]
