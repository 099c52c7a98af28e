"""Tasks of one's own: their names, their files and what fails in them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.networks.extras import EMBEDDING
from asdf.training.task import Task, find_tasks
from asdf.trials.trial_list import TrialList
from tests.unit.conftest import small_settings

TASK = """
from asdf.training.task import Task


class Speakers(Task):
    key = {key!r}
    is_requested = True

    def build_term(self, network, utterances, frames):
        return None

    def describe(self, scores):
        return scores["missing"]
"""


def settings_of(folder: Path, *paths: str, key: str = "speakers"):
    """Return settings that name tasks of a module `their_task`, which is written to `folder`."""
    (folder / "their_task.py").write_text(TASK.format(key=key))
    return small_settings(tasks=paths or ("their_task.Speakers",))


@pytest.fixture(autouse=True)
def forgotten_module():
    """Let each test import its own `their_task`."""
    yield
    sys.modules.pop("their_task", None)


def test_tasks_of_ours_come_before_those_of_users(tmp_path) -> None:
    tasks = find_tasks(settings_of(tmp_path), tmp_path)
    assert tasks.keys == ["sources", "frames", "speakers"]
    assert tasks.requested().keys == ["speakers"]


@pytest.mark.parametrize("key", ["", "two words", "a-b"])
def test_a_key_that_is_not_a_name_is_refused(tmp_path, key) -> None:
    with pytest.raises(UsageError, match=f"their_task.Speakers.key is {key!r}"):
        find_tasks(settings_of(tmp_path, key=key), tmp_path)


@pytest.mark.parametrize(
    ("key", "owner"), [(EMBEDDING, "the network's embeddings"), ("sources", "asdf.tasks.tracing")]
)
def test_a_key_that_another_has_is_refused(tmp_path, key, owner) -> None:
    with pytest.raises(UsageError, match=f"the key of {owner}"):
        find_tasks(settings_of(tmp_path, key=key), tmp_path)


def test_what_fails_in_a_task_names_its_method(tmp_path) -> None:
    tasks = find_tasks(settings_of(tmp_path), tmp_path)
    with pytest.raises(AsdfError, match=r"their_task\.Speakers\.describe failed: .*TypeError"):
        tasks.describe({"speakers": 1.0})


def test_damaged_scores_of_a_task_are_one_message(tmp_path) -> None:
    (task,) = find_tasks(settings_of(tmp_path), tmp_path).requested()
    score_file = tmp_path / "eval.txt"
    written = np.arange(4.0).reshape(2, 2)
    trials = TrialList(["a", "b"], np.array([1, 0], np.int8))
    task.write(score_file, trials, written, None)
    np.testing.assert_array_equal(task.read(score_file), written)

    path = Task.scores_file(task, score_file)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(AsdfError, match=r"cannot read the scores .*eval\.speakers\.npz"):
        task.read(score_file)
