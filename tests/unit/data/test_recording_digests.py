"""Digests of recordings change with what is in them, not with where or when they were copied."""

import os
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asdf.data.recording_digests import digest_list, digest_recordings
from asdf.trials.trial_list import TrialList

NAMES = [f"{index}.bin" for index in range(40)]


@pytest.fixture
def trials(tmp_path) -> TrialList:
    folder = tmp_path / "speech"
    folder.mkdir()
    for index, name in enumerate(NAMES):
        (folder / name).write_bytes(bytes([index]) * (5000 + index))
    return TrialList(NAMES, np.zeros(len(NAMES), np.int8), name="speech", folder=folder)


def edit(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 255
    path.write_bytes(bytes(content))


def test_another_content_or_size_is_another_digest(trials):
    before = digest_recordings(trials)
    assert digest_recordings(trials) == before
    edit(trials.folder / NAMES[-1], 2500)
    other = digest_recordings(trials)
    assert other != before
    edit(trials.folder / NAMES[-1], 2500)
    assert digest_recordings(trials) == before
    with (trials.folder / NAMES[17]).open("ab") as file:
        file.write(b"1")
    assert digest_recordings(trials) not in (before, other)
    (trials.folder / NAMES[17]).unlink()
    assert digest_recordings(trials) not in (before, other)


@pytest.mark.slow
def test_a_copy_and_a_tar_are_the_same_recordings(trials, tmp_path):
    before = digest_recordings(trials)
    copy = shutil.copytree(trials.folder, tmp_path / "copy")
    for path in copy.iterdir():
        os.utime(path, (1, 1))
    assert digest_recordings(replace(trials, folder=copy)) == before
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for name in NAMES:
            tar.add(copy / name, name)
    assert digest_recordings(replace(trials, folder=tmp_path / "all.tar")) == before


def test_of_a_long_list_recordings_at_equal_distances_are_looked_at(trials):
    before = digest_recordings(trials, max_recordings=10)
    edit(trials.folder / NAMES[5], 2500)
    assert digest_recordings(trials, max_recordings=10) == before
    edit(trials.folder / NAMES[8], 2500)
    assert digest_recordings(trials, max_recordings=10) != before


def test_a_list_is_its_utterances_and_labels(trials):
    labels = trials.labels.copy()
    labels[3] = 1
    digests = {
        digest_list(trials),
        digest_list(replace(trials, labels=labels)),
        digest_list(trials.select(np.arange(39))),
    }
    assert len(digests) == 3
    assert digest_list(replace(trials, name="other")) == digest_list(trials)
