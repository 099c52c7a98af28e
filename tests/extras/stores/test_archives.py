"""Recordings read out of tars, held against the same files in a folder."""

import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import audio_length, read_audio
from asdf.errors import AsdfError
from asdf.extras.stores.archives import find_folder, find_member, open_archive
from asdf.places import file_size, open_file
from tests.extras.stores.conftest import NAMES, WRITERS, pack, system_tar
from tests.unit.audio.test_flac import damage, flac


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: f"{writer[0]}-{writer[1]}")
@pytest.mark.parametrize("members", ["LA", "./LA", ".", ""])
def test_every_format_gives_the_files_that_were_packed(corpus, writer, members) -> None:
    program, how = writer
    archive, inside = corpus.parents[1] / "LA.tar", members.endswith("LA")
    if program == "python":
        with tarfile.open(archive, "w", format=how) as tar:
            for child in [corpus] if inside else sorted(corpus.iterdir()):
                tar.add(child, members if inside else f"{members}/{child.name}".lstrip("/"))
    else:
        what = [members] if members else [child.name for child in sorted(corpus.iterdir())]
        folder = corpus.parent if inside else corpus
        system_tar("-C", folder, f"--format={how}", "-cf", archive, *what)
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
    # It splits into no more than 155 and 100 characters.
    long = "y" * 60 + "/" + "x" * 90 + ".flac"
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


def test_members_that_begin_with_the_folders_name_may_be_named_as_tar_names_them(corpus) -> None:
    archive = pack(corpus)
    assert_array_equal(read_audio(archive / "LA" / "b.wav"), read_audio(corpus / "b.wav"))
    folder = find_folder(archive / "LA" / "flac")
    assert folder is not None
    inside = sorted(name[5:] for name in NAMES if name.startswith("flac/"))
    assert sorted(folder.archive.names(folder.name)) == inside
    assert sorted(folder.archive.names("flac")) == sorted(folder.archive.names("LA/flac"))


def test_ffmpeg_reads_members_too(corpus: Path) -> None:
    from tests.unit.audio.test_pyav import encode, sine

    samples, path = flac(corpus / "checksum.flac", 1)
    damage(path, back=1)
    encode(corpus / "a.m4a", sine(16000)[None], 16000, "aac")
    archive = pack(corpus)
    part = read_audio(archive / "checksum.flac", 15000, 5000)
    assert_array_equal(part, samples[15000:, 0] / 32768)
    assert_array_equal(read_audio(archive / "a.m4a"), read_audio(corpus / "a.m4a"))


def test_damage_in_a_member_is_reported_as_in_a_file(corpus: Path) -> None:
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
            with pytest.raises(AsdfError, match=words) as caught:
                read_audio(path)
            assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_counts_before_a_tar(corpus: Path) -> None:
    archive = pack(corpus)
    folder = archive.with_suffix("")
    folder.mkdir()
    soundfile.write(folder / "b.wav", np.zeros(5), 16000)
    assert audio_length(folder / "b.wav") == 5 and audio_length(archive / "b.wav") == 3040
    assert find_folder(folder) is None
    with pytest.raises(AsdfError, match="there is no file"):
        read_audio(folder / "flac" / "a.flac")


def test_ordinary_files_are_never_looked_for_in_archives(corpus, monkeypatch) -> None:
    read_audio(pack(corpus) / "b.wav")  # an archive is in use

    def fail(path: Path) -> None:
        pytest.fail("looked for an archive")

    for name in ("find_folder", "find_member"):
        monkeypatch.setattr(f"asdf.extras.stores.archives.{name}", fail)
    assert len(read_audio(corpus / "b.wav")) == 3040


def test_relative_paths_are_those_of_the_folder_that_one_is_in(corpus, monkeypatch) -> None:
    pack(corpus)
    other = corpus.parents[1] / "other"
    other.mkdir()
    soundfile.write(corpus / "b.wav", np.zeros(7), 16000)
    shutil.move(pack(corpus, "new.tar"), other / "LA.tar")
    for folder, length in ((corpus.parents[1], 3040), (other, 7)):
        monkeypatch.chdir(folder)
        assert audio_length("LA.tar/b.wav") == length and audio_length("LA/b.wav") == length


def test_links_lead_to_their_files_or_are_left_out_with_a_message(corpus, log) -> None:
    inside = {"link.wav": "flac/../b.wav", "link2.wav": "link.wav", "flac/up.wav": "../b.wav"}
    outside = {"out.wav": "../../b.wav", "root.wav": "/LA/b.wav", "loop.wav": "loop.wav"}
    for name, target in {**inside, **outside}.items():
        (corpus / name).symlink_to(target)
    os.link(corpus / "b.wav", corpus / "hard.wav")
    os.mkfifo(corpus / "pipe")
    archive = pack(corpus)
    for name in (*inside, "hard.wav"):
        assert len(read_audio(archive / name)) == 3040
    for name in (*outside, "pipe"):
        assert find_member(archive / name) is None
    [line] = [line for line in log if "left out" in line]
    assert "and 1 more" in line and "LA/pipe (a device or pipe)" in line


def test_files_of_macos_are_left_out_and_the_later_of_two_members_counts(corpus: Path) -> None:
    (corpus / "flac" / "._a.flac").write_bytes(b"\0\5\26\7")
    archive = pack(corpus)
    soundfile.write(corpus / "b.wav", np.zeros(7), 16000)
    with tarfile.open(archive, "a") as tar:
        tar.addfile(tarfile.TarInfo("./._LA"))
        tar.add(corpus / "b.wav", "LA/b.wav")
    assert not [name for name in open_archive(archive).names() if "._" in name]
    # '._LA' does not hide that all members begin with 'LA/'.
    assert audio_length(archive / "b.wav") == 7
