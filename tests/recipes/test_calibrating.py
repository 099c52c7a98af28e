"""`python -m asdf calibrate` takes the folder of a run, and finds its recordings."""

import shutil

import numpy as np
import pytest

import asdf
from asdf.__main__ import main
from asdf.evaluation import read_scores, write_scores
from asdf.trials.scored_files import read_how_scored, write_how_scored
from tests.conftest import make_recipe

NETWORK = ("network.network_class=asdf.networks.SSL_ASP", "front_end.architecture=tiny")
OPTIONS = ("debug", *NETWORK, "network.max_epochs=2", "recipe.end_stage=1")


@pytest.fixture(scope="module")
def run_folder(corpus, warm, tmp_path_factory):
    """Return the folder of a run whose config names its recordings relative to the recipe."""
    recipe = make_recipe(tmp_path_factory.mktemp("calibrated") / "recipe", corpus, warm)
    (recipe.folder / "data").symlink_to(corpus)
    config = recipe.folder / "configs" / "init_config.py"
    config.write_text(config.read_text().replace(str(corpus), "data"))
    assert recipe.run_here(*OPTIONS) == 0
    assert "paths.database_folder = 'data'" in (recipe.system() / "settings.py").read_text()
    for path in recipe.system().glob("scores/*/demo-dev.txt"):
        # Labelled by their order, so that they can be calibrated whatever the network says.
        scores = read_scores(path)
        labels = (scores.scores >= np.median(scores.scores)).astype(int)
        write_scores(path, scores.ids, labels, scores.scores)
        write_how_scored(path, read_how_scored(path))
    return recipe.system()


@pytest.fixture
def trained(run_folder, tmp_path, monkeypatch):
    """Return a copy of the run next to it, as recordings are found from its recipe."""
    monkeypatch.chdir(tmp_path)
    copy = run_folder.with_name(tmp_path.name)
    return shutil.copytree(run_folder, copy)


def run(capsys, *words):
    capsys.readouterr()
    status = main(["calibrate", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_run_gives_its_best_network_and_what_that_was_chosen_by(trained, tmp_path, capsys):
    out = tmp_path / "calibrated.pt"
    status, shown, errors = run(capsys, trained, "--out", out)
    assert (status, errors) == (0, "")
    [best] = [path for path in sorted((trained / "scores").iterdir()) if str(path) in shown]
    assert f"{best / 'demo-dev.txt'}: 4 bona fide, 4 spoof" in shown
    calibration = asdf.Detector(out, "cpu").calibration
    digest = read_scores(best / "demo-dev.txt").digest()
    assert (calibration.set, calibration.trials) == ("demo-dev", digest)
    # Score files may be named as before, of another set too.
    named = run(capsys, trained, best / "demo-dev.txt", "--out", out)
    assert named == (0, shown, "")


def test_recordings_of_a_run_are_found_from_its_recipe(trained, tmp_path, capsys):
    """A score file without a digest is checked by scoring two of its recordings."""
    for path in trained.glob("scores/*/*.scored.json"):
        path.unlink()
    out = tmp_path / "calibrated.pt"
    assert run(capsys, trained, "--out", out)[::2] == (0, "")
    for path in trained.glob("scores/*/demo-dev.txt"):
        scores = read_scores(path)
        write_scores(path, scores.ids, 1 - scores.labels, -scores.scores)
    status, _, errors = run(capsys, trained, "--out", out)
    assert status == 1 and "The signs are reversed" in errors


def test_a_network_without_scores_is_one_message(trained, capsys):
    for path in trained.glob("scores/*/demo-dev.txt"):
        path.rename(path.with_name("other.txt"))
    status, _, errors = run(capsys, trained)
    assert status == 2
    assert "has no scores on a validation set. Give one of its score files: " in errors
    assert f"{trained / 'scores'}/epoch." in errors and "/other.txt." in errors
    network = trained / "networks" / "epoch.1.pt"
    status, _, errors = run(capsys, network)
    assert status == 2 and f"the score file of {network} is missing" in errors
