"""Files of traced sources."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.tasks.tracing.source_scores import (
    SourceClasses,
    SourceScores,
    read_source_scores,
    sources_file,
    trace,
    write_source_scores,
)
from asdf.trials.trial_list import TrialList

LOGITS = np.array([[2.0, -1.0], [0.0, 60.0], [-3.5, -3.5]], np.float32)
TRIALS = TrialList(
    ["a b.wav", "b.wav", "c.wav"], np.array([0, 1, 0]), columns={"attack": ["A01", "-", "A09"]}
)
CLASSES = SourceClasses("attack", ("A01", "A02"))


def test_what_is_written_is_read_back(tmp_path) -> None:
    path = sources_file(tmp_path / "demo-eval.txt")
    assert path.name == "demo-eval.sources.tsv"
    scores = trace(TRIALS, CLASSES, LOGITS)
    write_source_scores(path, scores)
    lines = path.read_text().splitlines()
    assert lines[0] == "utterance\tattack\tenergy\tA01\tA02"
    assert lines[1].split("\t")[:3] == ["a b.wav", "A01", "2.0485873"]
    assert lines[3] == "c.wav\tA09\t-2.8068528\t-0.6931472\t-0.6931472"
    read = read_source_scores(path)
    assert read.ids == TRIALS.ids and read.truths == ["A01", "-", "A09"]
    assert (read.column, read.classes) == ("attack", ("A01", "A02"))
    np.testing.assert_allclose(read.log_probabilities, scores.log_probabilities, rtol=1e-7)
    np.testing.assert_allclose(np.exp(read.log_probabilities).sum(1), 1, rtol=1e-6)
    before = path.read_bytes()
    write_source_scores(path, trace(TRIALS, CLASSES, LOGITS))
    assert path.read_bytes() == before


def test_a_list_without_the_column_has_no_classes() -> None:
    bare = TrialList(TRIALS.ids, TRIALS.labels)
    assert trace(bare, CLASSES, LOGITS).truths == ["-", "-", "-"]


def test_what_is_not_finite_is_not_written(tmp_path) -> None:
    broken = np.array([[1, 2], [np.nan, 0], [0, 0]], np.float32)
    path = tmp_path / "x.sources.tsv"
    with pytest.raises(AsdfError, match=r"1 of 3 utterances .*'b.wav'"):
        write_source_scores(path, trace(TRIALS, CLASSES, broken))
    assert not path.exists()


HEADER = "utterance\tattack\tenergy\tA01\tA02\n"
HALVES = "a\tA01\t1\t-0.6931472\t-0.6931472\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.wav 1 0.5\n", "begins with the names of its columns"),
        (HEADER, "no trial in it"),
        (HEADER + "a\tA01\t1\t-1\n", "line 2: expected 5 values"),
        (HEADER + "a\tA01\t1\t-1\tnan\n", "line 2: expected 5 values"),
        (HEADER + "a\tA01\t1\t-1\tx\n", "line 2: expected 5 values"),
        (HEADER + 2 * HALVES, "'a' is in it twice"),
        (HEADER + HALVES + "./" + HALVES, "'./a' is in it twice"),
        (HEADER + "a\tA01\t1\t-1\t-1\n", "line 2: .*the sum 0.735759"),
        (HEADER + "a\tA01\t1\t-0.6931472\t-069314\n", "line 2: .*the sum 0.5"),
        (HEADER + "a\tA01\t1\t0.01\t-5\n", "line 2: .*the highest is 0.01"),
        (HEADER + "a\tA01\t1\t-0.6931472\t-0.69_31472\n", "line 2: expected 5 values"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "x.sources.tsv"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message):
        read_source_scores(path)


def test_scores_of_logits_are_exact() -> None:
    scores = SourceScores.of_logits(["a"], "x", ("A", "B"), ["A"], np.array([[1000.0, 0.0]]))
    assert scores.energies.tolist() == [1000.0]
    assert scores.log_probabilities.tolist() == [[0.0, -1000.0]]


def test_probabilities_of_few_digits_sum_to_one(tmp_path) -> None:
    """Within 1e-3, as another program may write four digits; beyond that a digit is missing."""
    path = tmp_path / "x.sources.tsv"
    path.write_text(HEADER + "a\tA01\t1\t-0.6934\t-0.6934\n")
    assert read_source_scores(path).log_probabilities.tolist() == [[-0.6934, -0.6934]]
    path.write_text(HEADER + "a\tA01\t1\t-0.6954\t-0.6954\n")
    with pytest.raises(AsdfError, match=r"the sum 0\.997"):
        read_source_scores(path)
