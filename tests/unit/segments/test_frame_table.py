"""Tables of frame scores: what is written is read, the same bytes for the same scores."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.segments import frame_table, read_frame_scores, read_frame_table, write_frame_table


@pytest.fixture
def table():
    scores = [np.array([1.5, -2], np.float32), np.array([0.25], np.float32)]
    return frame_table(["flac/a.flac", "ä b"], scores, 0.02, np.array([0.03, 0.02]))


def test_a_table_is_read_as_it_was_written(table, tmp_path):
    path = tmp_path / "demo.frames.npz"
    write_frame_table(path, table)
    first = path.read_bytes()
    read = read_frame_table(path)
    assert read.ids == ["flac/a.flac", "ä b"]
    assert read.offsets.tolist() == [0, 2, 3]
    assert [read.of_trial(index).tolist() for index in range(2)] == [[1.5, -2], [0.25]]
    assert (read.hop_s, read.durations_s.tolist()) == (0.02, [0.03, 0.02])
    write_frame_table(path, read)
    assert path.read_bytes() == first


def test_a_table_is_a_file_of_frame_scores(table, tmp_path):
    write_frame_table(tmp_path / "demo.npz", table)
    first, second = read_frame_scores(tmp_path / "demo.npz")
    assert (first.name, first.scores.tolist(), first.hop_s) == ("flac/a.flac", [1.5, -2], 0.02)
    assert (second.name, second.duration_s) == ("ä b", 0.02)


def test_scores_that_are_not_finite_are_not_written(table, tmp_path):
    table.scores[2] = np.nan
    with pytest.raises(AsdfError, match=r"1 of the 3 scores of frames .* first: of ä b"):
        write_frame_table(tmp_path / "demo.npz", table)
    assert not (tmp_path / "demo.npz").exists()


def save(path, **changes):
    arrays = {
        "ids": np.array(["a"]),
        "offsets": np.array([0, 2]),
        "scores": np.zeros(2, np.float32),
        "hop_s": np.float64(0.02),
        "durations_s": np.array([0.04]),
    }
    np.savez(path, **{**arrays, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.array([0, 3])},
        {"offsets": np.array([2, 0])},
        {"scores": np.array([0, np.inf])},
        {"hop_s": np.float64(0)},
        {"ids": np.array([["a"]], object)},
        {"durations_s": np.zeros(2)},
    ],
)
def test_tables_that_do_not_fit_are_refused(changes, tmp_path):
    save(tmp_path / "good.npz")
    assert read_frame_table(tmp_path / "good.npz").ids == ["a"]
    save(tmp_path / "bad.npz", **changes)
    with pytest.raises(AsdfError, match=r"bad\.npz: these are not frame scores of a run"):
        read_frame_table(tmp_path / "bad.npz")


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "bad.npz"
    with pytest.raises(AsdfError, match="cannot read"):
        read_frame_table(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(AsdfError, match=r"not frame scores of a run \(BadZipFile"):
        read_frame_table(path)


@pytest.mark.parametrize("save", [np.savez_compressed, np.savez])
def test_a_damaged_archive_is_refused(save, tmp_path):
    path = tmp_path / "bad.npz"
    save(path, ids=np.array(["a"] * 100))
    content = bytearray(path.read_bytes())
    # The method of compression, in the directory at the end.
    damaged = content.rindex(b"PK\x01\x02") + 10
    if save is np.savez_compressed:
        # The first byte of the compressed array, behind its name and an extra field.
        damaged = 30 + sum(struct.unpack("<HH", content[26:30]))
    content[damaged] = 0xFF
    path.write_bytes(content)
    with pytest.raises(AsdfError, match="not frame scores of a run"):
        read_frame_table(path)
