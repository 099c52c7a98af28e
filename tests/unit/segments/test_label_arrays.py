"""PartialSpoof's segment labels: a pickle that is read without running anything in it."""

import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.segments import Segment, Timed, read_label_arrays

LABELS: dict[str, Any] = {
    "CON_D_0000000": np.array(["1", "0", "0", "1", "0"]),
    "LA_D_1000265": np.array(["1", "1"]),
}
EXPECTED = {
    "CON_D_0000000": Timed((Segment(0.16, 0.48), Segment(0.64, 0.8)), 0.8),
    "LA_D_1000265": Timed((), 0.32),
}
NPY_HEADER = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"


def saved(path: Path, content: object) -> Path:
    np.save(path, np.asarray(content, dtype=object), allow_pickle=True)
    return path


def with_pickle(path: Path, pickled: bytes) -> Path:
    path.write_bytes(b"\x93NUMPY\x01\x00v\x00" + NPY_HEADER + pickled)
    return path


def test_labels_of_frames_become_parts(tmp_path):
    path = tmp_path / "dev_seglab_0.16.npy"
    np.save(path, LABELS, allow_pickle=True)  # type: ignore[arg-type]
    assert read_label_arrays(path) == EXPECTED
    twice = read_label_arrays(path, hop_s=0.32)
    assert twice["LA_D_1000265"].end_s == 0.64
    # A header of version 2 has a longer length.
    pickled = pickle.dumps(np.asarray(LABELS, dtype=object), protocol=4)
    path.write_bytes(b"\x93NUMPY\x02\x00v\x00\x00\x00" + NPY_HEADER + pickled)
    assert read_label_arrays(path) == EXPECTED


@pytest.mark.parametrize("protocol", range(2, 5))
def test_every_protocol_of_pickle_is_read(tmp_path, protocol):
    array = np.asarray(LABELS, dtype=object)
    pickled = pickle.dumps(array, protocol=protocol)
    # numpy before 2.0, as the distributed files were written.
    old = pickled.replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")
    for content in {pickled, old}:
        path = with_pickle(tmp_path / "dev_seglab_0.16.npy", content)
        assert read_label_arrays(path) == EXPECTED


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 0, 0, 1, 0]),
        np.array([1, 0, 0, 1, 0], np.uint8),
        np.array([1, 0, 0, 1, 0], ">i4"),
        np.array([True, False, False, True, False]),
        np.array([b"1", b"0", b"0", b"1", b"0"]),
        [1, 0, 0, 1, 0],
        ["1", "0", "0", "1", "0"],
    ],
    ids=str,
)
def test_numbers_and_lists_are_labels_too(tmp_path, values):
    path = saved(tmp_path / "x_0.16.npy", {"CON_D_0000000": values})
    assert read_label_arrays(path) == {"CON_D_0000000": EXPECTED["CON_D_0000000"]}


def test_a_file_in_a_tar_is_read(tmp_path):
    saved(tmp_path / "dev_seglab_0.16.npy", LABELS)
    with tarfile.open(tmp_path / "labels.tar", "w") as archive:
        archive.add(tmp_path / "dev_seglab_0.16.npy", "segment_labels/dev_seglab_0.16.npy")
    path = tmp_path / "labels.tar" / "segment_labels" / "dev_seglab_0.16.npy"
    assert read_label_arrays(path) == EXPECTED


def test_nothing_in_a_file_is_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    for content in ({"a": Trap()}, {"a": [Trap()]}, Trap()):
        with pytest.raises(AsdfError, match="which labels do not need"):
            read_label_arrays(saved(tmp_path / "x_0.16.npy", content))
    assert not (tmp_path / "run").exists()


def lists_within_lists() -> bytes:
    """A pickle of a list that holds another twice, and so on for sixty levels."""
    value: list[Any] = ["1"]
    for _ in range(60):
        value = [value, value]
    return pickle.dumps({"a": value})


@pytest.mark.parametrize(
    ("pickled", "reason"),
    [
        (b"", "Ran out of input"),
        (b"\x80\x04}", "Ran out of input"),
        (b"\x80\x04K\x01.", "not a dictionary"),
        (b"\x80\x02c__builtin__\nexec\n.", "which labels do not need"),
        (b"\x80\x02}(K\x01K\x02u.", "texts as keys"),
        (b"\x80\x02r\xff\xff\xff\xff.", "underflow"),
        (b"\x80\x04\x8e" + b"\xff" * 8, "BINBYTES.* exceeds"),
        (pickle.dumps({"a": "111"}), "not an array of 0 and 1"),
        (pickle.dumps({"a": np.array([1, 2])}, protocol=4), "not an array of 0 and 1"),
        (pickle.dumps({"a": np.array([0.5])}, protocol=4), "another type"),
        (pickle.dumps({"a": np.zeros((2, 2), np.int8)}, protocol=4), "another shape"),
        (pickle.dumps({"a": ["1", "x"]}), "not an array of 0 and 1"),
        (lists_within_lists(), "not an array of 0 and 1"),
        (pickle.dumps({"a": {1, 2}}), "not an array of 0 and 1"),
    ],
)
def test_other_content_is_refused(tmp_path, pickled, reason):
    with pytest.raises(AsdfError, match=reason):
        read_label_arrays(with_pickle(tmp_path / "x_0.16.npy", pickled))


def test_a_shape_that_the_file_only_states_takes_no_memory(tmp_path):
    pickled = pickle.dumps({"a": np.zeros(300, np.uint8)}, protocol=4)
    # 300 as two bytes, and as four: 2^31 - 1 labels.
    large = pickled.replace(b"M\x2c\x01", b"J\xff\xff\xff\x7f")
    assert large != pickled
    with pytest.raises(AsdfError, match="another shape"):
        read_label_arrays(with_pickle(tmp_path / "x_0.16.npy", large))


def test_a_file_that_is_no_npy_or_does_not_exist_is_an_error(tmp_path):
    (tmp_path / "x_0.16.npy").write_text("LA_0001 CON_D_0000000 - CON spoof\n")
    with pytest.raises(AsdfError, match="not an npy file"):
        read_label_arrays(tmp_path / "x_0.16.npy")
    with pytest.raises(AsdfError, match="No such file"):
        read_label_arrays(tmp_path / "y_0.16.npy")


def test_the_length_of_a_frame_must_be_known(tmp_path):
    with pytest.raises(UsageError, match="length of a frame"):
        read_label_arrays(saved(tmp_path / "labels.npy", LABELS))
