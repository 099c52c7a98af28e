"""Distillation: the term is its formula, the teacher hears the clips, and a run resumes exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.networks.interface import Outputs, as_outputs
from asdf.networks.watched import is_plain
from asdf.settings.relations import contradictions
from asdf.settings.sections import Sections
from asdf.tasks.distillation.task import Distillation
from asdf.tasks.distillation.term import KEY, TeacherTerm, projected
from tests.unit.commands.test_export_network import settings_of
from tests.unit.interchange.test_transformers_folder import drawn


def test_the_values_are_those_of_the_formula():
    random = np.random.default_rng(0)
    logits, teacher = random.normal(size=(4, 2)), random.normal(size=4)
    own, aims = random.normal(size=(4, 3)), random.normal(size=(4, 3))
    extra = torch.from_numpy(np.column_stack([teacher, aims])).float()
    outputs = Outputs(torch.from_numpy(own).float(), torch.from_numpy(logits).float(), {KEY: extra})
    term = TeacherTerm(0.5, 2.0, 3.0)
    p = 1 / (1 + np.exp(-teacher / 3))
    q = 1 / (1 + np.exp(-(logits[:, 1] - logits[:, 0]) / 3))
    of_scores = -9 * (p * np.log(q) + (1 - p) * np.log(1 - q))
    cosines = (own * aims).sum(1) / np.linalg.norm(own, axis=1) / np.linalg.norm(aims, axis=1)
    expected = 0.5 * of_scores + 2 * (1 - cosines)
    values = term.per_utterance(outputs, torch.zeros(4))
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-5)
    assert term.counts(term.targets_of([(1, 0), (1, 3)])).tolist() == [1, 1]


@pytest.mark.parametrize(("dimension", "size"), [(64, 8), (8, 64)])
def test_a_projection_is_orthonormal_and_always_the_same(dimension, size):
    matrix = projected(torch.eye(dimension), size)
    gram = matrix.T @ matrix if dimension > size else matrix @ matrix.T
    torch.testing.assert_close(gram, torch.eye(min(dimension, size)), atol=1e-5, rtol=0)
    assert torch.equal(matrix, projected(torch.eye(dimension), size))
    assert torch.equal(projected(torch.ones(1, 8), 8), torch.ones(1, 8))


def distilled(tmp_path, **settings_values) -> tuple:
    """Return teacher, student with the teacher's targets in its outputs, and the term."""
    of_teacher = settings_of("SSL_ASP")
    teacher = drawn(of_teacher)
    write_network_file(tmp_path / "teacher.pt", NetworkFile.from_network(teacher, of_teacher))
    settings = settings_of("SSL_Linear")
    settings.distillation.teacher = "teacher.pt"
    for name, value in settings_values.items():
        setattr(settings.distillation, name, value)
    student = drawn(settings)
    # The path is one in the recipe's folder.
    term = Distillation(settings, tmp_path).build_term(student, None, None)
    return teacher, student, term


def test_the_teacher_hears_the_clips_in_eval_mode_and_stays_as_it_is(tmp_path):
    teacher, student, term = distilled(tmp_path, embedding_weight=1.0)
    names = set(student.state_dict())
    waveforms_BT = 0.1 * torch.randn(3, 6000)
    assert KEY not in as_outputs(student(waveforms_BT)).extras
    student.train()
    outputs = as_outputs(student(waveforms_BT))
    with torch.no_grad():
        embeddings_BE, logits_B2 = teacher(waveforms_BT)
    expected = torch.cat([logits_B2[:, 1:] - logits_B2[:, :1], embeddings_BE], dim=1)
    torch.testing.assert_close(outputs.extras[KEY], expected)
    values_B = term.per_utterance(outputs, torch.zeros(3))
    cosines_B = cosine_similarity(
        outputs.embeddings, projected(embeddings_BE, outputs.embeddings.shape[1])
    )
    scores_B = TeacherTerm(1.0, 0.0, 2.0).per_utterance(outputs, torch.zeros(3))
    torch.testing.assert_close(values_B, scores_B + 1 - cosines_B)
    values_B.sum().backward()
    # The student's file is that of any network.
    assert set(student.state_dict()) == names
    assert not outputs.extras[KEY].requires_grad


def test_a_student_with_a_teacher_is_never_made_a_graph_by_itself(tmp_path):
    _, student, _ = distilled(tmp_path)
    assert not is_plain(student)


def test_a_teacher_that_is_not_there_and_what_contradicts_it_are_named(tmp_path):
    settings = Sections()
    settings.distillation.teacher = "nowhere.pt"
    with pytest.raises(UsageError, match=r"there is no file or folder nowhere\.pt"):
        Distillation(settings, tmp_path).check()
    settings.front_end.cache_features = True
    settings.computing.compile = True
    settings.distillation.score_weight = 0
    named = {each.first for each in contradictions(settings) if "distil" in each.second}
    assert named == {
        "front_end.cache_features",
        "computing.compile",
        "distillation.score_weight",
    }
    assert not Distillation(Sections(), None).is_requested
    assert Distillation(Sections(), None).build_term(None, None, None) is None


CONFIG = """
taught < debug
network.network_class = 'small_networks.Normed'
network.max_epochs = 2
network.checkpoint_interval_steps = 2
distillation.teacher = 'teacher.pt'
distillation.embedding_weight = 0.5
"""


@pytest.mark.slow
def test_a_killed_training_ends_as_one_never_killed(recipe):
    settings = settings_of("SSL_ASP")
    file = NetworkFile.from_network(drawn(settings), settings)
    write_network_file(recipe.folder / "teacher.pt", file)
    recipe.add_configs(CONFIG)
    whole = recipe.run("taught", "paths.system_folder=whole")
    assert whole.status == 0, whole.output
    assert "distillation: the teacher is teacher.pt, SSL_ASP with" in whole.output
    killed = ("taught", "paths.system_folder=killed")
    assert recipe.run(*killed, TEST_KILL="0:7").status != 0
    resumed = recipe.run(*killed)
    assert resumed.status == 0 and "was killed; resuming" in resumed.output, resumed.output
    states = []
    for name in ("whole", "killed"):
        path = recipe.system(name) / "networks" / "epoch.2.pt"
        states.append(torch.load(path, weights_only=True)["model_state_dict"])
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    alone = recipe.run("taught", "paths.system_folder=alone", "distillation.teacher=None")
    assert alone.status == 0, alone.output
    path = recipe.system("alone") / "networks" / "epoch.2.pt"
    without = torch.load(path, weights_only=True)["model_state_dict"]
    assert not torch.equal(without["output.weight"], states[0]["output.weight"])
