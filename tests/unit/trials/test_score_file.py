"""ASDF's score files: what is written is read back; bad values are neither read nor written."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from asdf.errors import AsdfError
from asdf.evaluation import Scores, read_scores, write_scores
from asdf.trials.formats import read_score_file

IDS = ["flac/LA E 1.flac", "flac/b.flac", "ü/1 0 2.flac"]


def test_the_lines_themselves(tmp_path):
    path = tmp_path / "new" / "scores.txt"
    write_scores(path, IDS, [1, 0, 1], np.array([0.1, -8.7504968643, 1e-7], np.float32))
    lines = "flac/LA E 1.flac 1 0.1\nflac/b.flac 0 -8.750497\nü/1 0 2.flac 1 1e-07\n"
    assert path.read_bytes() == lines.encode()


def test_reading_gives_ids_labels_and_classes(tmp_path):
    path = tmp_path / "scores.txt"
    write_scores(path, IDS, [1, 0, 1], [0.5, -1.5, 2.0])
    scores = read_scores(path)
    assert scores.ids == IDS and scores.labels.tolist() == [1, 0, 1]
    assert (scores.bona_fide.tolist(), scores.spoof.tolist()) == ([0.5, 2.0], [-1.5])
    assert scores.scores.dtype == np.float64 and scores.attacks is None


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, 20, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_float32_comes_back_as_it_was(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "float32.txt"
    write_scores(path, [f"u{i}" for i in range(20)], [0, 1] * 10, values)
    assert read_scores(path).scores.astype(np.float32).tobytes() == values.tobytes()


def test_float64_holds_float32_scores_in_the_same_bytes(tmp_path):
    values = np.array([0.1, 0.2, 0.3], np.float32)
    write_scores(tmp_path / "a", IDS, [1, 0, 1], values)
    write_scores(tmp_path / "b", IDS, [1, 0, 1], values.astype(np.float64))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_float64_scores_keep_their_order(tmp_path):
    """Rounded to float32 these three would tie, and the EER would change."""
    values = np.array([1.0, 1.0 + 1e-12, 1e300])
    write_scores(tmp_path / "a", IDS, [1, 0, 1], values)
    assert read_scores(tmp_path / "a").scores.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        (IDS, [1, np.nan, 2], r"1 of 3 .* that is NaN or infinite: 'flac/b.flac'\. Score in fp32"),
        (IDS, [np.inf, np.nan, -np.inf], "3 of 3 .*: 'flac/LA E 1.flac', 'flac/b.flac', 'ü/1 0 2."),
        (["a", "b", "a"], [1, 2, 3], "1 of 3 utterances are named more than once: 'a'"),
        (["a", "b\n", "c"], [1, 2, 3], r"cannot be written on one line: 'b\\n'"),
        (["a", "", "c"], [1, 2, 3], "cannot be written on one line: ''"),
        (["a", " b", "c"], [1, 2, 3], "cannot be written on one line: ' b'"),
        (["a", "\udcff", "c"], [1, 2, 3], r"cannot be written on one line: '\\udcff'"),
    ],
)
def test_unsound_scores_are_not_written_and_the_old_file_stays(tmp_path, ids, values, message):
    path = tmp_path / "scores.txt"
    write_scores(path, ["old"], [1], [0.25])
    with pytest.raises(AsdfError, match=message) as caught:
        write_scores(path, ids, [1, 0, 1], values)
    assert str(path) in str(caught.value)
    assert path.read_text() == "old 1 0.25\n"
    assert [p.name for p in tmp_path.iterdir()] == ["scores.txt"]


def test_many_bad_utterances_are_not_all_named(tmp_path):
    with pytest.raises(AsdfError, match=r"100 of 100 .*: 'u0', .* 'u3', 'u4', \.\.\.\. Score"):
        write_scores(tmp_path / "s", [f"u{i}" for i in range(100)], [0] * 100, [np.nan] * 100)
    with pytest.raises(AsdfError, match="no utterance was scored"):
        write_scores(tmp_path / "s", [], [], [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ids", "labels", "values"),
    [
        (IDS, [1, 0], [1, 2, 3]),
        (IDS, [1, 0, 1], [1, 2]),
        (IDS[:2], [1, 0, 1], [1, 2, 3]),
        (IDS, [1, 0, 2], [1, 2, 3]),
        (IDS, [1, 0, 0.5], [1, 2, 3]),
        (IDS, [1, 0, 1], [[1], [2], [3]]),
    ],
)
def test_counts_and_labels_must_fit(tmp_path, ids, labels, values):
    with pytest.raises(ValueError, match=r"do not match|must be 1"):
        write_scores(tmp_path / "s", ids, labels, values)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 0.5\nb 0 nan\n", "line 2: the score of 'b' is nan"),
        ("a 1 0.5\n\nb 0 -inf\nc 0 nan\n", r"line 3: the score of 'b' is -inf \(2 of 3"),
        ("a 1 0.5\nb 2 0.5\n", "line 2: expected 'relative/path.flac 0\\|1 SCORE', found 'b 2 0.5"),
        ("a 1 0.5\nb spoof 0.5\n", "found 'b spoof 0.5'. 1 means bona fide and 0 means spoof"),
        ("a 1 0.5\nb 0 0.5x\n", "line 2: the score '0.5x' is not a number"),
        ("a 1 0.5\n0 0.5\n", "line 2: expected 'relative/path.flac 0\\|1 SCORE', found '0 0.5'"),
        ("a 1 0.5\nb 0 0.5\na 1 0.5\n", "line 3: 'a' was already scored in line 1"),
        ("", "no trial"),
        ("\n \n", "no trial"),
        ("a 1 0.5\nb 1 0.5\n", "none of the 2 trials is spoof"),
        ("a 0 0.5\n", "none of the 1 trials is bona fide"),
    ],
)
def test_unsound_files_are_refused_with_their_location(tmp_path, text, message):
    path = tmp_path / "scores.txt"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message) as caught:
        read_scores(path)
    assert str(path) in str(caught.value)


def test_one_class_is_read_when_requested(tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("a 0 0.5\r\nb 0 1e-3\r\n")
    scores = read_scores(path, both_classes=False)
    assert (scores.ids, scores.scores.tolist()) == (["a", "b"], [0.5, 0.001])


def test_gzip_is_known_by_its_content(tmp_path):
    path = tmp_path / "scores.txt"
    path.write_bytes(gzip.compress(b"a 1 0.5\nb 0 0.25\n"))
    assert read_scores(path).ids == ["a", "b"]
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(AsdfError, match="damaged or cut off"):
        read_scores(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(AsdfError, match=r"cannot read .*nothing\.txt: No such file"):
        read_scores(tmp_path / "nothing.txt")
    (tmp_path / "latin").write_bytes(b"\xfc 1 0.5\n")
    with pytest.raises(AsdfError, match="latin: this is not UTF-8"):
        read_scores(tmp_path / "latin")


def test_scores_of_unlike_lengths_are_a_bug():
    with pytest.raises(ValueError, match="same length"):
        Scores(["a"], np.array([1, 0]), np.array([0.5]))
    with pytest.raises(ValueError, match="2 scores for 1 trials"):
        Scores(["a"], np.array([1]), np.array([0.5, 1.5]))
    with pytest.raises(ValueError, match="same length"):
        Scores(["a"], np.array([1]), np.array([0.5]), columns={"attack": ["A01", "A02"]})


@pytest.mark.parametrize("text", ["1_0.5", "-0_1", "١"])
def test_a_number_that_python_alone_would_read_is_refused(tmp_path, text):
    path = tmp_path / "scores.txt"
    path.write_text(f"a 1 0.5\nb 0 {text}\n")
    with pytest.raises(AsdfError, match=f"line 2: the score '{text}' is not a number"):
        read_scores(path)


@pytest.mark.parametrize("spelling", ["./x/a.flac", "x//a.flac", "y/../x/a.flac"])
def test_one_recording_in_two_spellings_is_a_repeat(tmp_path, spelling):
    path = tmp_path / "scores.txt"
    path.write_text(f"x/a.flac 1 0.5\ny/a.flac 0 0.1\n{spelling} 1 0.6\n")
    with pytest.raises(AsdfError, match=r"line 3: .* was already scored in line 1 as 'x/a.flac'"):
        read_scores(path)


@pytest.mark.parametrize("shape", ["{} 1 {}", "{} A01 spoof {}", "{} {}"])
def test_of_several_mistakes_the_first_line_is_named(tmp_path, shape):
    path = tmp_path / "scores.txt"
    lines = [shape.format(f"u{number}", number) for number in range(2000)]
    lines[1234] = shape.format("u1234", "x")
    lines[1237] = "alone"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(AsdfError, match=r"line 1235: the score 'x' is not a number"):
        read_score_file(path)
    lines[1230] = "alone"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(AsdfError, match=r"line 1231: expected '.*', found 'alone'"):
        read_score_file(path)
    path.write_text("\n".join(lines) + "\n\0")
    with pytest.raises(AsdfError, match=r"line 1231: expected '.*', found 'alone'"):
        read_score_file(path)


def test_a_score_has_no_underscore_among_thousands(tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("".join(f"u{number} 1 {number}\n" for number in range(600)) + "v 0 1_0\n")
    with pytest.raises(AsdfError, match="line 601: the score '1_0' is not a number"):
        read_scores(path)
