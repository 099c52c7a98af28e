"""The text files of HAD and LlamaPartialSpoof."""

from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.segments import Segment, Timed, read_reference, read_text


def written(folder: Path, *lines: str) -> Path:
    path = folder / "label.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_lines_of_had(tmp_path):
    path = written(
        tmp_path,
        "HAD_train_fake_00000001 0.00-1.43-T/1.43-2.02-F/2.02-4.03-T 0",
        "HAD_train_real_00000001 0.00-3.10-T 1",
        "HAD_train_fake_00000002 0.00-0.50-F/0.50-0.75-F/0.75-1.00-T 0",
    )
    assert read_text(path) == {
        "HAD_train_fake_00000001": Timed((Segment(1.43, 2.02),), 4.03),
        "HAD_train_real_00000001": Timed((), 3.1),
        "HAD_train_fake_00000002": Timed((Segment(0, 0.75),), 1.0),
    }


def test_lines_of_llamapartialspoof(tmp_path):
    path = written(
        tmp_path,
        "dev-clean_1462_170145_000020_000002 0.9600 bonafide 0.0000-0.9600-bonafide",
        "dev01-yourtts-full_3000_15664_000010_000001 10.9930 spoof 0.0000-10.9930-spoof",
        "dev01-yourtts-partial-cf_8842_304647_000034_000001 1.9740 spoof "
        "0.0000-0.8510-bonafide 0.8510-1.1910-spoof 1.1910-1.9740-bonafide",
    )
    assert list(read_text(path).values()) == [
        Timed((), 0.96),
        Timed((Segment(0, 10.993),), 10.993),
        Timed((Segment(0.851, 1.191),), 1.974),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b 0.00-1.00-X 0", "'X' is not a label"),
        ("b 0.00-T 1", "is not a time"),
        ("b 1.00-0.50-T 1", "ends before it starts"),
        ("b 0.00-1.00-T 0", "is labelled spoof, but none of its parts"),
        ("b 1.0 bonafide 0.0-1.0-spoof", "is labelled bona fide, but one of its parts"),
        ("b 0.00-1.00-T 2", "as HAD has it"),
        ("b spoof", "as HAD has it"),
        ("b 1.0 spoof", "as HAD has it"),
        ("a 0.00-1.00-T 1", "'a' is repeated"),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path, line, reason):
    with pytest.raises(AsdfError, match=reason) as caught:
        read_text(written(tmp_path, "a 0.00-1.00-T 1", line))
    assert "line 2" in str(caught.value)


def test_plain_lines_are_a_part_each(tmp_path):
    path = written(
        tmp_path,
        "b call.wav 1.43 2.02 spoof",
        "b call.wav 0.00 1.43 bonafide",
        "a.wav 0 3.5 real",
        "b call.wav 2.02 2.5 A07",
    )
    expected = {"b call.wav": Timed((Segment(1.43, 2.5),), 2.5), "a.wav": Timed((), 3.5)}
    assert read_text(path) == expected
    reference = read_reference(path)
    assert reference.trials.columns["spoofed_s"] == ["1.43-2.5", "-"]
    assert reference.durations_s == {"b call.wav": 2.5, "a.wav": 3.5}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b 0 1 odd", "line 2: 'odd' is not a label"),
        ("b 1 0.5 spoof", "line 2: .* ends before it starts"),
        ("b 0 1_0 spoof", "line 2: expected 'NAME START END LABEL'"),
        ("b 0 spoof", "line 2: expected 'NAME START END LABEL'"),
    ],
)
def test_a_plain_line_that_does_not_fit_is_named(tmp_path, line, reason):
    path = written(tmp_path, "a 0 1 bonafide", line)
    with pytest.raises(AsdfError, match=reason):
        read_text(path)
