"""HAD: labels and segments in one text file, recordings at any depth."""

from __future__ import annotations

import pytest

from asdf.corpora import compare_with_disk
from asdf.errors import AsdfError
from asdf.segments import COLUMN
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import Lay, Read

LABELS = """\
HAD_train_fake_00000001 0.00-1.43-T/1.43-2.02-F/2.02-4.03-T 0
HAD_train_fake_00000002 0.00-2.50-F 0
HAD_train_real_00000001 0.00-3.10-T 1
"""
NAMES = ("HAD_train_fake_00000001", "HAD_train_fake_00000002", "HAD_train_real_00000001")


@pytest.mark.parametrize("home", ["", "HAD/"])
@pytest.mark.parametrize("inner", ["conbine", "train/conbine"])
def test_had(lay: Lay, read: Read, home: str, inner: str) -> None:
    paths = [f"{home}HAD_train/{inner}/{name}.wav" for name in NAMES]
    empty = "\n".join([*paths, f"{home}HAD_train/{inner}/._{NAMES[0]}.wav"])
    root = lay({f"{home}HAD_train/HAD_train_label.txt": LABELS}, empty)
    trials, reading = read("had:train", root)
    assert list(trials.ids) == paths
    assert trials.labels.tolist() == [0, 0, 1]
    assert trials.columns == {COLUMN: ["1.43-2.02", "0-2.5", "-"]}
    check_files([trials])
    on_disk = compare_with_disk(reading, open_tree(root))
    assert not on_disk.missing and not on_disk.unnamed
    with pytest.raises(AsdfError, match=r"no HAD_test/HAD_test_label\.txt"):
        read("had:test", root)


def test_an_empty_label_file_is_an_error(lay: Lay, read: Read) -> None:
    with pytest.raises(AsdfError, match="no trials found"):
        read("had:dev", lay({"HAD_dev/HAD_dev_label.txt": ""}))
