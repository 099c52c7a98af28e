"""Shards written to an object store, and read there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.archives import find_folder
from asdf.audio import read_audio
from asdf.commands.score_recordings import find_recordings
from asdf.data.packed_lengths import packed_rows
from asdf.errors import UsageError
from asdf.packing.command import main
from asdf.recipe.located_corpora import read_named
from asdf.remote import as_path, find_objects
from asdf.trials.lists import check_files, read_list

RATE = 16000
COUNT = 8


def samples(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(-9000, 9000, 4000 + number, dtype=np.int16)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    lines = []
    for number in range(COUNT):
        soundfile.write(tmp_path / f"u{number}.wav", samples(number), RATE)
        lines.append(f"u{number}.wav {number % 2}\n")
    path = tmp_path / "train_list.txt"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """fsspec's store in memory."""
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    yield "memory://bucket/shards"
    store.rm("/bucket", recursive=True)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A bucket of moto's server."""
    server_room = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    server = server_room.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield "s3://bucket/shards"
    server.stop()


def check_packed(listed: Path, folder: str) -> None:
    words = [str(listed), folder, "--shards", "40kB", "--format", "flac"]
    assert main(words) == 0
    tars = sorted(name for name in find_objects(folder) if name.endswith(".tar"))
    assert len(tars) > 1
    expected = {"train_list.txt", "train_pack.json"}
    for tar in tars:
        expected |= {tar, f"{tar}.index", f"{tar}.lengths"}
    assert set(find_objects(folder)) == expected
    packed = read_list(as_path(f"{folder}/train_list.txt"), as_path(folder))
    check_files([packed])
    rows = packed_rows(packed)
    assert rows is not None
    for index, name in enumerate(packed.ids):
        number = int(Path(name).stem[1:])
        assert packed.labels[index] == number % 2
        assert rows[index, 0] == 4000 + number
        decoded = read_audio(packed.path(index))
        np.testing.assert_array_equal(decoded, samples(number).astype(np.float32) / 2**15)
    # The index that was uploaded is taken: it names what the tar has.
    location = find_folder(as_path(f"{folder}/{tars[0]}"))
    assert location is not None
    assert len(list(location.archive.names())) == 2 * sum(
        name.startswith(tars[0]) for name in packed.ids
    )
    for pattern in ("train-*.tar", f"train-{{000000..{len(tars) - 1:06d}}}.tar", ""):
        trials = read_named(f"webdataset:{folder}/{pattern}", Path())
        assert list(trials.ids) == list(packed.ids)
        assert trials.labels.tolist() == packed.labels.tolist()
    recordings = find_recordings([f"webdataset:{folder}"])
    assert recordings.paths[0] == f"{folder}/{packed.ids[0]}"
    # Once more: nothing is left to be done.
    assert main(words) == 0


def test_a_pack_in_a_store(listed: Path, memory: str) -> None:
    check_packed(listed, memory)


@pytest.mark.slow
def test_a_pack_in_s3(listed: Path, bucket: str) -> None:
    check_packed(listed, bucket)


def test_a_web_server_takes_no_pack(listed: Path) -> None:
    with pytest.raises(UsageError, match="a web server does not accept files"):
        main([str(listed), "https://example.org/shards"])
