"""Recordings read out of tars, held against the same files in a folder; and tars that must not be trusted."""

from __future__ import annotations

import io
import logging
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import archive_index, audio_length, fallbacks, read_audio
from asdf.audio.archives import file_size, find_folder, find_member, open_archive, open_file, read_text
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from tests.unit.audio.test_flac import damage, flac

NAMES = [
    "flac/a.flac",
    f"flac/{'long' * 30}/{'x' * 90}.flac",
    "flac/two words.flac",
    "flac/sprächen/日本.flac",
    "b.wav",
]
WRITERS = [("python", tarfile.PAX_FORMAT), ("python", tarfile.GNU_FORMAT), ("tar", "pax"), ("tar", "gnu")]


def noise(length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, length)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder 'source/LA' of five recordings."""
    folder = tmp_path / "source" / "LA"
    for seed, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name, noise(3000 + 10 * seed, seed), 16000, subtype="PCM_16")
    return folder


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The lines of the log."""
    lines: list[str] = []
    handler, level = logging.Handler(), LOG.level
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield lines
    LOG.removeHandler(handler)
    LOG.setLevel(level)


def pack(corpus: Path, name: str = "LA.tar", members: str = "LA", mode: str = "w") -> Path:
    """`corpus` as the tar `name`; its members begin with 'LA', './' or nothing."""
    archive = corpus.parents[1] / name
    with tarfile.open(archive, mode) as tar:  # type: ignore[call-overload]
        tar.add(corpus, members)
    return archive


def system_tar(*words: object) -> None:
    if not shutil.which("tar"):
        pytest.skip("no program 'tar'")
    subprocess.run(["tar", *map(str, words)], check=True)


def index_of(archive: Path) -> Path:
    return archive.with_name(archive.name + ".index")


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: f"{writer[0]}-{writer[1]}")
@pytest.mark.parametrize("members", ["LA", "./LA", ".", ""])
def test_every_format_gives_the_files_that_were_packed(corpus: Path, writer: tuple, members: str) -> None:
    program, how = writer
    archive, inside = corpus.parents[1] / "LA.tar", members.endswith("LA")
    if program == "python":
        with tarfile.open(archive, "w", format=how) as tar:
            for child in [corpus] if inside else sorted(corpus.iterdir()):
                tar.add(child, members if inside else f"{members}/{child.name}".lstrip("/"))
    else:
        what = [members] if inside else sorted(child.name for child in corpus.iterdir()) if not members else ["."]
        system_tar("-C", corpus.parent if inside else corpus, f"--format={how}", "-cf", archive, *what)
    for name in NAMES:
        whole = read_audio(corpus / name)
        for path in (archive / name, archive.with_suffix("") / name):
            assert_array_equal(read_audio(path), whole)
            assert_array_equal(read_audio(path, 1000, 700), whole[1000:1700])
            assert audio_length(path) == len(whole)
            assert file_size(path) == (corpus / name).stat().st_size
            with open_file(path) as file:
                assert file.read() == (corpus / name).read_bytes()
    assert sorted(open_archive(archive).names()) == sorted(NAMES)


@pytest.mark.parametrize("program", ["python", "tar"])
def test_ustar(corpus: Path, program: str) -> None:
    shutil.rmtree(corpus / "flac" / "sprächen")
    long = "y" * 60 + "/" + "x" * 90 + ".flac"  # which splits into no more than 155 and 100 characters
    (corpus / long).parent.mkdir()
    (corpus / NAMES[1]).rename(corpus / long)
    (corpus / NAMES[1]).parent.rmdir()
    archive = corpus.parents[1] / "LA.tar"
    if program == "python":
        with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
            tar.add(corpus, "LA")
    else:
        system_tar("-C", corpus.parent, "--format=ustar", "-cf", archive, "LA")
    for name in (long, NAMES[2]):
        assert_array_equal(read_audio(archive / name), read_audio(corpus / name))


def test_members_that_begin_with_the_folders_name_may_be_named_as_tar_names_them(corpus: Path) -> None:
    archive = pack(corpus)
    assert_array_equal(read_audio(archive / "LA" / "b.wav"), read_audio(corpus / "b.wav"))
    found = find_folder(archive / "LA" / "flac")
    assert found is not None
    assert sorted(found[0].names(found[1])) == sorted(name[5:] for name in NAMES if name.startswith("flac/"))
    assert sorted(found[0].names("flac")) == sorted(found[0].names("LA/flac"))


def test_a_folder_of_the_archives_own_name_does_not_eat_the_names_that_begin_like_it(corpus: Path) -> None:
    (corpus / "LA_dev").mkdir()
    (corpus / "b.wav").rename(corpus / "LA_dev" / "a.wav")
    (corpus / "flac").rename(corpus / "LA_flac")
    archive = open_archive(pack(corpus))
    assert archive.root == "LA/"
    assert next(archive.names("LA")) == "LA_dev/a.wav" == next(archive.names())


def test_a_window_is_a_file(corpus: Path) -> None:
    content = bytes(np.random.default_rng(1).integers(0, 256, 300_000, np.uint8))
    (corpus / "long.bin").write_bytes(content)
    with open_file(pack(corpus) / "long.bin") as file:
        for place, size in ((0, 10), (32760, 20), (299_990, 100), (5, 200_000), (150_000, 0), (70_000, 7)):
            assert file.seek(place) == place and file.read(size) == content[place : place + size]
            assert file.tell() == min(place + size, len(content))
        assert file.seek(-3, io.SEEK_END) == len(content) - 3 and file.read() == content[-3:]
        file.seek(len(content) + 5)
        assert file.read(1) == b""
        assert file.seek(10) + 5 == file.seek(5, io.SEEK_CUR)
        with pytest.raises(OSError, match="Invalid"):
            file.seek(-1)


def test_only_the_part_of_a_long_recording_is_read(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(corpus / "long.wav", noise(2_000_000, 9), 16000, subtype="PCM_16")
    path = pack(corpus) / "long.wav"
    find_member(path)
    read, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda *given: read.append(given[1]) or pread(*given))
    part = read_audio(path, 1_900_000, 16000)
    assert_array_equal(part, read_audio(corpus / "long.wav", 1_900_000, 16000))
    assert 32000 <= sum(read) < 250_000


def test_ffmpeg_reads_members_too(corpus: Path) -> None:
    pytest.importorskip("av")
    from tests.unit.audio.test_pyav import encode, sine

    samples, path = flac(corpus / "checksum.flac", 1)
    damage(path, back=1)
    encode(corpus / "a.m4a", sine(16000)[None], 16000, "aac")
    archive = pack(corpus)
    fallbacks.take()
    assert_array_equal(read_audio(archive / "checksum.flac", 15000, 5000), samples[15000:, 0] / 32768)
    assert_array_equal(read_audio(archive / "a.m4a"), read_audio(corpus / "a.m4a"))
    noted = {str(archive / "checksum.flac"), str(archive / "a.m4a"), str(corpus / "a.m4a")}
    assert fallbacks.take() == noted


def test_damage_in_a_member_is_told_as_in_a_file(corpus: Path) -> None:
    _, path = flac(corpus / "wrong.flac", 1)
    damage(path, back=200)
    (corpus / "empty.wav").touch()
    (corpus / "text.wav").write_text("no such page" * 100)
    archive = pack(corpus)
    for name, words in (
        ("wrong.flac", "cannot be decoded to its end"),
        ("empty.wav", r"is empty \(0 bytes\)"),
        ("text.wav", "is not audio that libsndfile can read"),
        ("none.wav", "there is no file"),
        ("flac/none/a.wav", "there is no file"),
        ("flac", "is a folder"),
        ("b.wav/x.wav", "there is no file"),
    ):
        for path in (archive / name, archive.with_suffix("") / name):
            with pytest.raises(AsdfError, match=words) as told:
                read_audio(path)
            assert str(path) in str(told.value) and "\n" not in str(told.value)


def test_a_folder_counts_before_a_tar(corpus: Path) -> None:
    archive = pack(corpus)
    folder = archive.with_suffix("")
    folder.mkdir()
    soundfile.write(folder / "b.wav", np.zeros(5), 16000)
    assert audio_length(folder / "b.wav") == 5 and audio_length(archive / "b.wav") == 3040
    assert find_folder(folder) is None
    with pytest.raises(AsdfError, match="there is no file"):
        read_audio(folder / "flac" / "a.flac")


def test_ordinary_files_are_never_looked_for_in_archives(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_audio(pack(corpus) / "b.wav")  # an archive is in use
    monkeypatch.setattr("asdf.audio.archives.find_folder", lambda folder: pytest.fail("looked for an archive"))
    monkeypatch.setattr("asdf.audio.reading.find_member", lambda path: pytest.fail("looked for an archive"))
    assert len(read_audio(corpus / "b.wav")) == 3040


def test_relative_paths_are_those_of_the_folder_that_one_is_in(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(corpus)
    other = corpus.parents[1] / "other"
    other.mkdir()
    soundfile.write(corpus / "b.wav", np.zeros(7), 16000)
    shutil.move(pack(corpus, "new.tar"), other / "LA.tar")
    for folder, length in ((corpus.parents[1], 3040), (other, 7)):
        monkeypatch.chdir(folder)
        assert audio_length("LA.tar/b.wav") == length and audio_length("LA/b.wav") == length


def test_links_lead_to_their_files_or_are_left_out_with_a_message(corpus: Path, log: list[str]) -> None:
    (corpus / "link.wav").symlink_to("flac/../b.wav")
    (corpus / "link2.wav").symlink_to("link.wav")
    (corpus / "flac" / "up.wav").symlink_to("../b.wav")
    os.link(corpus / "b.wav", corpus / "hard.wav")
    (corpus / "out.wav").symlink_to("../../b.wav")
    (corpus / "root.wav").symlink_to("/LA/b.wav")
    (corpus / "loop.wav").symlink_to("loop.wav")
    os.mkfifo(corpus / "pipe")
    archive = pack(corpus)
    for name in ("link.wav", "link2.wav", "flac/up.wav", "hard.wav"):
        assert len(read_audio(archive / name)) == 3040
    for name in ("out.wav", "root.wav", "loop.wav", "pipe"):
        assert find_member(archive / name) is None
    [line] = [line for line in log if "left out" in line]
    assert "and 1 more" in line and "LA/pipe (a device or pipe)" in line


def test_of_two_members_of_one_name_the_later_counts(corpus: Path) -> None:
    archive = pack(corpus)
    soundfile.write(corpus / "b.wav", np.zeros(7), 16000)
    with tarfile.open(archive, "a") as tar:
        tar.add(corpus / "b.wav", "LA/b.wav")
    assert audio_length(archive / "b.wav") == 7


def test_files_of_macos_are_not_there(corpus: Path) -> None:
    (corpus / "flac" / "._a.flac").write_bytes(b"\0\5\26\7")
    archive = pack(corpus)
    with tarfile.open(archive, "a") as tar:
        tar.addfile(tarfile.TarInfo("./._LA"))
    assert not [name for name in open_archive(archive).names() if "._" in name]
    assert audio_length(archive / "b.wav") == 3040  # '._LA' does not hide that all members begin with 'LA/'


def test_an_index_is_made_once(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = pack(corpus)
    first = open_archive(archive)
    assert index_of(archive).is_file() and not list(archive.parent.glob(".*"))
    monkeypatch.setattr(archive_index, "scan", lambda *given: pytest.fail("headers read again"))
    again = archive_index.read_index(archive, first.descriptor)
    for one, other in zip(vars(again).values(), vars(first.index).values(), strict=True):
        assert_array_equal(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8))


def other_archive(corpus: Path, archive: Path) -> None:
    """Put another archive of the same size and time in its place: the same members in another order."""
    status = archive.stat()
    moved = archive.with_name("moved.tar")
    with tarfile.open(archive) as old, tarfile.open(moved, "w") as new:
        for member in sorted((m for m in old if m.isfile()), key=lambda m: m.name, reverse=True):
            new.addfile(member, old.extractfile(member))
        for member in (m for m in old.getmembers() if not m.isfile()):
            new.addfile(member)
    assert moved.stat().st_size == status.st_size
    moved.replace(archive)
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("size_and_time", [True, False])
def test_an_index_of_another_archive_is_not_used(corpus: Path, size_and_time: bool) -> None:
    archive = pack(corpus)
    read_audio(archive / "b.wav")
    before = index_of(archive).read_bytes()
    if size_and_time:
        other_archive(corpus, archive)
    else:
        soundfile.write(corpus / "b.wav", noise(3040, 77), 16000, subtype="PCM_16")
        os.utime(corpus / "b.wav", (0, 0))
        pack(corpus)
        index_of(archive).write_bytes(before)
    opened = open_archive(archive)  # as a new process would
    assert index_of(archive).read_bytes() != before
    assert opened.find("b.wav") is not None
    assert_array_equal(read_audio(archive / "b.wav"), read_audio(corpus / "b.wav"))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01", b"gibberish" * 100])
def test_a_damaged_index_is_made_anew(corpus: Path, content: bytes) -> None:
    archive = pack(corpus)
    index_of(archive).write_bytes(content)
    assert_array_equal(read_audio(archive / "b.wav"), read_audio(corpus / "b.wav"))
    assert index_of(archive).stat().st_size > 1000


def test_an_index_that_holds_a_pickle_is_not_run(corpus: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "ran",))

    archive = pack(corpus)
    with index_of(archive).open("wb") as file:
        np.save(file, np.array([Evil()], object), allow_pickle=True)
    assert len(read_audio(archive / "b.wav")) == 3040
    assert not (tmp_path / "ran").exists()


def test_an_archive_that_is_replaced_under_the_reader_gives_no_samples(corpus: Path) -> None:
    archive = pack(corpus)
    read_audio(archive / "b.wav")
    content = archive.read_bytes()
    with archive.open("r+b") as file:  # as `cp` does it
        file.write(bytes(1024) + content[:-1024])
    with pytest.raises(AsdfError, match="likely replaced while it was being read"):
        read_audio(archive / "b.wav")
    archive.write_bytes(content)
    assert len(read_audio(archive / "b.wav")) == 3040


def test_where_the_folder_cannot_be_written_the_users_cache_has_the_index(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = pack(corpus)
    index_of(archive).mkdir()  # permissions do not stop root
    assert len(read_audio(archive / "b.wav")) == 3040
    [kept] = (tmp_path / "cache" / "asdf").iterdir()
    assert kept.name.startswith("LA.tar.") and kept.name.endswith(".index")
    monkeypatch.setattr(archive_index, "scan", lambda *given: pytest.fail("headers read again"))
    assert archive_index.read_index(archive, open_archive(archive).descriptor).find("LA/b.wav") is not None


def test_where_no_folder_can_be_written_a_warning_says_what_it_costs(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    archive = pack(corpus)
    index_of(archive).mkdir()
    assert len(read_audio(archive / "b.wav")) == 3040
    assert any("cannot be kept" in line and "XDG_CACHE_HOME" in line for line in log)


@pytest.mark.parametrize("cut", ["in a member", "before the end mark", "in a header", "to nothing"])
def test_a_tar_that_ends_early_is_named(corpus: Path, cut: str) -> None:
    archive = pack(corpus)
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile()]
        end = tar.offset
    last = members[-1]
    size = {
        "in a member": last.offset_data + last.size - 700,
        "before the end mark": end,
        "in a header": last.offset_data - 100,
        "to nothing": 0,
    }[cut]
    with archive.open("r+b") as file:
        file.truncate(size)
    for _ in range(2):
        with pytest.raises(AsdfError, match="is not a whole tar archive") as told:
            read_audio(archive / "b.wav")
        assert str(archive) in str(told.value)
    assert not index_of(archive).exists()


def test_a_damaged_header_in_the_middle_is_named(corpus: Path) -> None:
    archive = pack(corpus)
    with tarfile.open(archive) as tar:
        member = [member for member in tar if member.isfile()][2]
    with archive.open("r+b") as file:
        file.seek(member.offset_data - 512)
        file.write(b"\xff" * 512)
    with pytest.raises(AsdfError, match="is not a whole tar archive"):
        read_audio(archive / "b.wav")


@pytest.mark.parametrize("filler", [b"", b"\0" * 2**25])
def test_an_end_mark_in_the_middle_does_not_hide_the_rest(corpus: Path, filler: bytes) -> None:
    """Two archives one after another, as `cat` leaves them; an interrupted copy that left a hole."""
    archive = pack(corpus)
    with archive.open("ab") as file:
        file.write(filler or pack(corpus, "other.tar").read_bytes())
    with pytest.raises(AsdfError, match="neither a member nor the end mark"):
        read_audio(archive / "b.wav")


@pytest.mark.parametrize(("kind", "program"), [("gz", "gunzip"), ("xz", "unxz"), ("bz2", "bunzip2")])
def test_compressed_archives_are_refused_with_the_way_out(corpus: Path, kind: str, program: str) -> None:
    archive = pack(corpus, f"LA.tar.{kind}", mode=f"w:{kind}")
    folder = archive.parent / "LA"
    for path in (folder / "b.wav", archive / "b.wav"):
        with pytest.raises(AsdfError, match=f"{archive} is compressed.*`{program} {archive}`"):
            read_audio(path)
    misnamed = archive.rename(archive.with_name("LA.tar"))
    with pytest.raises(AsdfError, match=f"compressed.*`mv LA.tar LA.tar.{kind}; {program} LA.tar.{kind}`"):
        read_audio(misnamed / "b.wav")


def test_zstandard_is_known_by_its_name_and_its_first_bytes(tmp_path: Path) -> None:
    for name in ("LA.tar.zst", "LA.tar"):
        (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfd" + bytes(600))
        with pytest.raises(AsdfError, match=r"unzstd .*LA\.tar\.zst"):
            read_audio(tmp_path / "LA" / "b.wav")
        (tmp_path / name).unlink()


def test_sparse_files_are_refused(corpus: Path) -> None:
    with (corpus / "hole.wav").open("wb") as file:
        file.truncate(2**22)
    archive = corpus.parents[1] / "LA.tar"
    for how in ("gnu", "pax"):
        system_tar("-C", corpus.parent, "-S", f"--format={how}", "-cf", archive, "LA")
        if archive.stat().st_size > 2**21:
            pytest.skip("this file system has no holes")
        with pytest.raises(AsdfError, match=r"sparse file.*without tar's option --sparse"):
            read_audio(archive / "b.wav")


def test_an_empty_archive_has_no_members(tmp_path: Path) -> None:
    tarfile.open(tmp_path / "LA.tar", "w").close()
    assert list(open_archive(tmp_path / "LA.tar").names()) == []
    with pytest.raises(AsdfError, match="there is no file"):
        read_audio(tmp_path / "LA" / "b.wav")


def test_threads_read_side_by_side(corpus: Path) -> None:
    for seed in range(20):
        soundfile.write(corpus / f"{seed}.flac", noise(4000, seed), 16000, subtype="PCM_16")
    archive = pack(corpus)
    names = [f"{seed % 20}.flac" for seed in range(200)]
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda name: read_audio(archive / name, 500, 3000), names))
    for name, samples in zip(names, read, strict=True):
        assert_array_equal(samples, read_audio(corpus / name, 500, 3000))


FORKED = """
import multiprocessing, sys
from pathlib import Path
from asdf.audio import read_audio
archive, names = Path(sys.argv[1]), sys.argv[2:]
expected = [read_audio(archive / name).tobytes() for name in names]
def read(_):
    return all([read_audio(archive / name).tobytes() for name in names] == expected for _ in range(20))
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        sys.exit(not all(pool.map(read, range(4))))
"""


def test_forked_processes_read_side_by_side(corpus: Path) -> None:
    """They share one descriptor, whose place in the file no one uses."""
    ended = subprocess.run([sys.executable, "-c", FORKED, str(pack(corpus)), *NAMES], capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_an_archive_is_sent_to_another_process_by_its_path(corpus: Path) -> None:
    archive = open_archive(pack(corpus))
    sent = pickle.dumps(archive)
    assert len(sent) < 1000 and pickle.loads(sent) is archive


def test_a_text_in_an_archive(corpus: Path) -> None:
    (corpus / "list.txt").write_bytes("\ufeffa 1\r\nb 0\r\n".encode())
    assert read_text(pack(corpus) / "list.txt") == "a 1\nb 0\n" == read_text(corpus / "list.txt")
