"""Recordings read out of parquet files, held against the same files in a folder."""

import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from asdf.audio import audio_length, read_audio
from asdf.errors import AsdfError
from asdf.extras.stores import parquet as archives_parquet
from asdf.extras.stores.archives import find_member, open_archive
from asdf.extras.stores.parquet import ParquetTable
from asdf.places import file_size, file_state, open_file
from tests.conftest import PATIENCE_S
from tests.extras.stores.conftest import NAMES

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def pack_rows(corpus: Path, names: list[str | None], audio_names: list[str | None]) -> Path:
    """Write the five recordings of `corpus`, two per group of rows."""
    content = [(corpus / name).read_bytes() for name in NAMES]
    rows = [{"bytes": data, "path": name} for data, name in zip(content, audio_names, strict=True)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"path": names, "audio": pa.array(rows, kind), "label": [0, 1, 0, 1, 1]})
    path = corpus.parent / "test-00000-of-00001.parquet"
    pq.write_table(table, path, row_group_size=2)
    return path


@pytest.fixture
def packed(corpus: Path) -> Path:
    return pack_rows(corpus, list(NAMES), [None] * 5)


def test_a_row_is_the_file_that_was_packed(corpus: Path, packed: Path) -> None:
    for name in NAMES:
        whole = read_audio(corpus / name)
        assert_array_equal(read_audio(packed / name), whole)
        assert_array_equal(read_audio(packed / name, 1000, 700), whole[1000:1700])
        assert audio_length(packed / name) == len(whole)
        assert file_size(packed / name) == (corpus / name).stat().st_size
        with open_file(packed / name) as file:
            assert file.read() == (corpus / name).read_bytes()
    archive = open_archive(packed)
    assert sorted(archive.names()) == sorted(NAMES) and archive.row_names() == NAMES
    assert list(archive.names("flac/sprächen")) == ["日本.flac"]
    assert archive.is_folder("flac") and not archive.is_folder("fla")
    state = file_state(packed / NAMES[0])
    assert state == (packed.stat().st_size, packed.stat().st_mtime_ns)
    with pytest.raises(AsdfError, match=r"there is no file .*parquet/flac/none\.flac"):
        read_audio(packed / "flac" / "none.flac")


@pytest.mark.parametrize(
    ("names", "audio_names", "expected"),
    [
        (["/data/a.wav", "b.wav", "c.wav", "d.wav", "x/../e.wav"], [None] * 5, "data/a.wav"),
        (["a"] * 5, ["1.wav", "2.wav", "3.wav", "4.wav", "5.wav"], "1.wav"),
        (["a"] * 5, ["audio.wav"] * 5, "00000000"),
        (["a", "b", None, "c", "d"], ["../1.wav", "2.wav", "3.wav", "4.wav", "5.wav"], "00000000"),
    ],
)
def test_a_name_is_the_path_of_the_row_or_its_number(corpus, names, audio_names, expected):
    path = pack_rows(corpus, names, audio_names)
    assert open_archive(path).row_names()[0] == expected
    assert_array_equal(read_audio(path / expected), read_audio(corpus / NAMES[0]))


def test_threads_and_a_pickled_archive_read_the_same(corpus: Path, packed: Path) -> None:
    names = NAMES * 20
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda name: read_audio(packed / name), names))
    for name, samples in zip(names, read, strict=True):
        assert_array_equal(samples, read_audio(corpus / name))
    archive = open_archive(packed)
    assert pickle.loads(pickle.dumps(archive)) is archive


PROCESSES = """
import multiprocessing, sys
from pathlib import Path
from asdf.audio import read_audio
archive, names = Path(sys.argv[2]), sys.argv[3:]
def read(name):
    return read_audio(archive / name).tobytes()
if __name__ == "__main__":
    expected = [read(name) for name in names]
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(read, names * 10, chunksize=1) == expected * 10
    assert [read(name) for name in names] == expected
"""


@pytest.mark.slow_but("fork")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_read_the_same(packed: Path, tmp_path: Path, start: str) -> None:
    script = tmp_path / "read.py"
    script.write_text(PROCESSES)
    command = [sys.executable, str(script), start, str(packed), *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def test_a_replaced_file_is_opened_anew(corpus: Path, packed: Path) -> None:
    before = read_audio(packed / NAMES[0])
    turned = pack_rows(corpus, list(reversed(NAMES)), [None] * 5)
    assert turned == packed
    # The name of the first recording is that of the last one now.
    assert open_archive(packed).row_names() == list(reversed(NAMES))
    assert_array_equal(read_audio(packed / NAMES[-1]), before)


def test_no_file_stays_open(corpus: Path, packed: Path) -> None:
    """A data set has thousands of them, and a process may have a thousand open."""
    archives = []
    for number in range(3):
        copy = packed.with_name(f"{number}.parquet")
        shutil.copy(packed, copy)
        archives.append(open_archive(copy))
        assert_array_equal(read_audio(copy / NAMES[number]), read_audio(corpus / NAMES[number]))
    if Path("/proc/self/fd").is_dir():
        opened = [entry.resolve() for entry in Path("/proc/self/fd").iterdir()]
        assert not [path for path in opened if path.suffix == ".parquet"]
    assert len(archives) == 3


def test_a_file_that_is_replaced_or_goes_while_it_is_read_is_one_message(corpus, packed) -> None:
    archives_parquet._group.cache_clear()
    member = open_archive(packed).find(NAMES[0])
    pack_rows(corpus, list(reversed(NAMES)), [None] * 5)
    with pytest.raises(AsdfError, match=r"is not the file that was opened: it was likely replaced"):
        member.open()
    # Whoever looks it up again gets the new one.
    assert open_archive(packed).find(NAMES[0]).open().read() == (corpus / NAMES[-1]).read_bytes()
    member = open_archive(packed).find(NAMES[-1])
    packed.unlink()
    with pytest.raises(AsdfError, match=r"cannot read .*\.parquet: No such file"):
        member.open()


def test_what_is_no_whole_file_is_one_message(corpus: Path, packed: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(packed.read_bytes()[:-50])
    with pytest.raises(AsdfError, match=r"cut\.parquet is not a whole parquet file \("):
        read_audio(cut / NAMES[0])
    damaged = tmp_path / "damaged.parquet"
    content = bytearray(packed.read_bytes())
    content[200:2000] = bytes(1800)
    damaged.write_bytes(content)
    with pytest.raises(AsdfError, match=r"damaged\.parquet"):
        for name in NAMES:
            read_audio(damaged / name)
    with pytest.raises(AsdfError, match=r"cannot read .*none\.parquet: No such file"):
        ParquetTable(tmp_path / "none.parquet")
    pq.write_table(pa.table({"label": [1]}), tmp_path / "labels.parquet")
    with pytest.raises(AsdfError, match=r"no column of recordings .* its columns are label"):
        find_member(tmp_path / "labels.parquet" / "0")


def test_a_row_without_a_recording_is_named(corpus: Path) -> None:
    path = corpus.parent / "some.parquet"
    table = pa.table({"path": ["a", "b"], "speech": pa.array([b"abc", None], pa.binary())})
    pq.write_table(table, path)
    assert file_size(path / "a") == 3
    with pytest.raises(AsdfError, match=r"some\.parquet: row 1 holds no recording"):
        read_audio(path / "b")


def test_a_folder_of_that_name_counts(corpus: Path, packed: Path) -> None:
    """As with tars: a folder may be called so, and holds ordinary files."""
    packed.unlink()
    shutil.copytree(corpus, packed)
    assert_array_equal(read_audio(packed / NAMES[0]), read_audio(corpus / NAMES[0]))


@pytest.mark.slow
def test_a_group_that_inflates_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    audio = pa.array([bytes(300_000_000), b"a recording"], pa.binary())
    table = pa.table({"audio": audio, "label": [0, 1]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 100_000
    del audio, table
    opened = ParquetTable(path)
    allocated = pa.total_allocated_bytes()
    with pytest.raises(AsdfError, match=r"column audio of group of rows 0 states 300,0.* smaller"):
        opened.read_audio(0)
    with pytest.raises(AsdfError, match=r"states 300,0"):
        opened.read(["audio"])
    assert pa.total_allocated_bytes() - allocated < 10_000_000
    assert opened.read(["label"]) == {"label": [0, 1]}


def test_text_that_is_none_is_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"audio": [b"a"], "speaker": ["a speaker's name"]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"a speaker's name", b"a speaker\xff\xfe name"))
    with pytest.raises(AsdfError, match=r"a\.parquet is not a whole parquet file .*utf-8"):
        ParquetTable(path).read(["speaker"])
