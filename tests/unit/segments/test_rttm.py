"""RTTM files of PartialSpoof and WeDefense."""

import gzip
from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.segments import Segment, Timed, read_rttm, write_rttm


def written(folder: Path, *lines: str) -> Path:
    path = folder / "rttm"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_parts_of_a_recording_are_those_that_are_spoofed(tmp_path):
    path = written(
        tmp_path,
        "SPEAKER CON_D_0000000 1 0.0 0.5 <NA> <NA> bonafide <NA> <NA>",
        "SPEAKER CON_D_0000000 1 0.5 0.25 <NA> <NA> spoof <NA> <NA>",
        "SPEAKER CON_D_0000000 1 0.75 0.25 <NA> <NA> A03 <NA> <NA>",
        "SPEAKER CON_D_0000000 1 1.0 0.1 <NA> <NA> nonspeech <NA>",
        "SPEAKER LA_D_1000265 1   0.000   1.500 <NA> <NA> bonafide",
        ";; a comment",
        "SPEAKER CON_D_0000000 1 1.1 0.2 <NA> <NA> spoof <NA> <NA>",
        "SPEAKER CON_D_0000000 1 1.3 0.0 <NA> <NA> spoof <NA> <NA>",
    )
    assert read_rttm(path) == {
        "CON_D_0000000": Timed((Segment(0.5, 1.0), Segment(1.1, 1.3)), 1.3),
        "LA_D_1000265": Timed((), 1.5),
    }


def test_what_is_written_is_read_back(tmp_path):
    recordings = {
        "a": Timed((Segment(0.02, 0.06), Segment(0.1, 0.2)), 0.345),
        "b": Timed((), 2.0),
        "c": Timed((Segment(0.0, 1.5),), 1.5),
    }
    write_rttm(tmp_path / "out.rttm", recordings)
    assert read_rttm(tmp_path / "out.rttm") == recordings
    assert (tmp_path / "out.rttm").read_text().splitlines()[:3] == [
        "SPEAKER a 1 0.000000 0.020000 <NA> <NA> bonafide <NA> <NA>",
        "SPEAKER a 1 0.020000 0.040000 <NA> <NA> spoof <NA> <NA>",
        "SPEAKER a 1 0.060000 0.040000 <NA> <NA> bonafide <NA> <NA>",
    ]


def test_a_name_with_spaces_stays_one_column(tmp_path):
    write_rttm(tmp_path / "out.rttm", {"a b.wav": Timed((), 1.0)})
    assert list(read_rttm(tmp_path / "out.rttm")) == ["a_b.wav"]


def test_a_gzip_file_is_read(tmp_path):
    line = b"SPEAKER a 1 0 1 <NA> <NA> spoof <NA> <NA>\n"
    (tmp_path / "rttm.gz").write_bytes(gzip.compress(line))
    assert read_rttm(tmp_path / "rttm.gz") == {"a": Timed((Segment(0, 1),), 1.0)}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("SPEAKER a 1 0 1 <NA> <NA>", "expected 'SPEAKER NAME"),
        ("LA_0001 a - - bonafide", "expected 'SPEAKER NAME"),
        ("SPEAKER a 1 0 1 <NA> <NA> music <NA> <NA>", "'music' is not a label"),
        ("SPEAKER a 1 0 -1 <NA> <NA> spoof <NA> <NA>", "ends before it starts"),
        ("SPEAKER a 1 x 1 <NA> <NA> spoof <NA> <NA>", "is not a time"),
        ("SPEAKER a 1 0 inf <NA> <NA> spoof <NA> <NA>", "is not a time"),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path, line, reason):
    good = "SPEAKER a 1 0 1 <NA> <NA> spoof <NA> <NA>"
    with pytest.raises(AsdfError, match=reason) as caught:
        read_rttm(written(tmp_path, good, line))
    assert "line 2" in str(caught.value)
