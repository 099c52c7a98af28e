"""The script of docs/launch.md in which Optuna calls run.py."""

import json
import re
import sys

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "launch.md"


@pytest.mark.slow
def test_optuna_proposes_runs_and_goes_on(recipe, tmp_path):
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    script = re.search(r"```python\n(# search\.py\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
    assert len(script.splitlines()) <= 30
    recipe.add_configs("net < debug\nnetwork.max_epochs = 1\n")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "wav2vec_aasist").symlink_to(recipe.folder)
    (tmp_path / "search.py").write_text(script.replace("n_trials=50", "n_trials=1"))
    command = ["env", f"--chdir={tmp_path}", sys.executable, "search.py"]
    for _ in range(2):
        recipe.run_command(command, PYTHONPATH=str(ROOT)).ok()
    study = optuna.load_study(study_name="net", storage=f"sqlite:///{tmp_path / 'search.db'}")
    assert len(study.trials) == 2
    for trial in study.trials:
        results = tmp_path / "output" / f"search-{trial.number}" / "results" / "results.json"
        assert [row["eer"] for row in json.loads(results.read_text())] == [trial.value]
