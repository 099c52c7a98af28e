"""What each probe says of a machine that lacks something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asdf.doctor import audio_formats, cluster, disks, installation, machine
from asdf.doctor.finding import MISSING, OK, WARNING

GIB = 2**30


def memory_of(root: Path, available_kb: int, limit: str) -> Path:
    (root / "proc").mkdir()
    (root / "proc" / "meminfo").write_text(
        f"MemTotal:       16777216 kB\nMemFree: 100 kB\nMemAvailable:   {available_kb} kB\n"
    )
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
    return root


@pytest.mark.parametrize(
    ("available_kb", "limit", "status", "text"),
    [
        (8 * 2**20, "max", OK, "8.0 of 16.0 GiB available"),
        (1 * 2**20, "max", WARNING, "1.0 of 16.0 GiB available"),
        (
            8 * 2**20,
            str(2 * GIB),
            WARNING,
            "8.0 of 16.0 GiB available, limited to 2.0 GiB by the container or job",
        ),
    ],
)
def test_memory_counts_what_the_container_leaves(tmp_path, available_kb, limit, status, text):
    (finding,) = machine.look_at_memory(memory_of(tmp_path, available_kb, limit))
    assert (finding.status, finding.text) == (status, text)


def test_a_machine_without_shared_memory_is_warned_of(tmp_path):
    (finding,) = machine.look_at_shared_memory(tmp_path / "shm")
    assert finding.status == WARNING
    assert "computing.network_dataloader_workers=0" in finding.mend


def test_more_threads_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    (finding,) = machine.look_at_cores()
    assert finding.status == WARNING
    assert "OMP_NUM_THREADS=4096: threads would compete for cores" in finding.text
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (finding,) = machine.look_at_cores()
    assert finding.status == OK


def test_a_folder_is_written_to_and_left_as_it_was(tmp_path):
    (finding,) = disks.look_at_folder(tmp_path, "folder")
    assert finding.status in (OK, WARNING)
    assert "cannot be written" not in finding.text
    assert not list(tmp_path.iterdir())
    (finding,) = disks.look_at_folder(tmp_path / "new" / "deep", "folder")
    assert f"(of {tmp_path}: it does not exist yet)" in finding.text
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_missing():
    # Not by its permissions: root may write anywhere but there.
    (finding,) = disks.look_at_folder(Path("/proc/self"), "folder")
    assert finding.status == MISSING
    assert "paths.output_folder" in finding.mend


def programs(folder: Path, monkeypatch, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_slurms_partitions_are_listed(tmp_path, monkeypatch):
    programs(
        tmp_path,
        monkeypatch,
        sbatch="echo slurm 23.11.4",
        sinfo="echo 'gpu up 3-00:00:00 4 gpu:a100:4'; echo 'small down 1:00 2 (null)'",
    )
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    (finding,) = cluster.look_at_slurm()
    assert (finding.status, finding.text) == (
        OK,
        "slurm 23.11.4, partitions gpu (4 nodes, gpu:a100:4, 3-00:00:00), "
        "small (2 nodes, 1:00, down); this is job 77",
    )


def test_a_slurm_that_does_not_answer_is_a_warning(tmp_path, monkeypatch):
    programs(
        tmp_path,
        monkeypatch,
        sbatch="echo slurm 23.11.4",
        sinfo="echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1",
        scontrol="echo 'Slurmctld(primary) at head is DOWN'; exit 1",
    )
    (finding,) = cluster.look_at_slurm()
    assert (finding.status, finding.text) == (
        WARNING,
        "slurm 23.11.4: Slurmctld(primary) at head is DOWN",
    )


def test_extras_are_those_of_the_distribution():
    finding = installation._describe_extras(
        {"one": ["numpy"], "two": ["numpy", "no-such-package-here"], "test": ["nothing-at-all"]}
    )
    assert (finding.status, finding.text, finding.mend) == (
        OK,
        "installed: one; not installed: two",
        "where needed: pip install 'asdf-antispoofing[two]'",
    )


def test_a_codec_counts_only_if_sound_comes_back():
    assert audio_formats._comes_back("FLAC", "PCM_16")
    assert not audio_formats._comes_back("FLAC", "OPUS")
    assert not audio_formats._comes_back("NONE", "NOTHING")
