"""Lists packed into shards, which ASDF, webdataset and lhotse read."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asdf.audio import read_audio
from asdf.audio.reading import audio_length
from asdf.data import lengths
from asdf.data.lengths import measure_lengths
from asdf.data.packed_lengths import packed_rows, read_packed_lengths
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.packing import PackOptions, pack_list, parse_size
from asdf.packing.command import main
from asdf.packing.member_names import member_names
from asdf.packing.packing import _Packing
from asdf.recipe.located_corpora import read_named
from asdf.settings.sections import Audio, SpeechActivity
from asdf.trials.lists import check_files, read_list
from asdf.trials.trial_list import TrialList

RATE = 16000
COUNT = 12


def samples(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.integers(-9000, 9000, 4000 + 10 * number, dtype=np.int16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a list of recordings of several formats, with columns."""
    folder = tmp_path / "corpus"
    (folder / "a").mkdir(parents=True)
    rows = ["utterance\tlabel\tattack\tspeaker"]
    for number in range(COUNT):
        suffix = ("flac", "wav")[number % 2]
        soundfile.write(folder / f"a/u{number}.{suffix}", samples(number), RATE)
        attack = "-" if number % 3 == 0 else f"A{number % 3}"
        rows.append(f"a/u{number}.{suffix}\t{int(attack == '-')}\t{attack}\tspk{number % 4}")
    (folder / "train_list.txt").write_text("\n".join(rows) + "\n")
    return folder


def read_source(folder: Path) -> TrialList:
    return read_list(folder / "train_list.txt", folder, "train")


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a pack is made of, without the indexes, which have the times of the tars."""
    files = sorted(folder.iterdir())
    return {
        file.name: file.read_bytes()
        for file in files
        if file.is_file() and not file.name.endswith((".index", ".lock"))
    }


def pack(folder: Path, *arguments: str) -> tuple[Path, int]:
    out = folder.parent / "out"
    words = [str(folder / "train_list.txt"), str(out), "--shards", "40kB", *arguments]
    return out, main(words)


@pytest.mark.parametrize("form", ["keep", "flac"])
def test_a_pack_is_the_list_sample_by_sample(folder: Path, form: str) -> None:
    source = read_source(folder)
    out, status = pack(folder, "--format", form)
    packed = read_list(out / "train_list.txt", out)
    assert (status, len(packed)) == (0, COUNT)
    check_files([packed])
    for index, name in enumerate(packed.ids):
        shard, _, inner = name.partition("/")
        of_source = source.index_of(Path(inner).stem)
        assert shard.startswith("train-00000") and of_source is not None
        assert packed.labels[index] == source.labels[of_source]
        for column, values in source.columns.items():
            assert packed.columns[column][index] == values[of_source]
        expected = samples(of_source).astype(np.float32) / 2**15
        np.testing.assert_array_equal(read_audio(packed.path(index)), expected)
        if form == "keep":
            with tarfile.open(out / shard) as tar:
                member = tar.extractfile(inner)
                assert member is not None
                assert member.read() == source.path(of_source).read_bytes()
    # A mixture, and as large as was said.
    assert [Path(name).stem for name in packed.ids] != [f"u{number}" for number in range(COUNT)]
    tars = sorted(out.glob("*.tar"))
    assert len(tars) > 2
    assert all(tar.stat().st_size <= 40_000 for tar in tars)


def test_webdataset_reads_a_pack(folder: Path) -> None:
    wds = pytest.importorskip("webdataset")
    out, _ = pack(folder, "--format", "flac")
    source = read_source(folder)
    urls = [str(tar) for tar in sorted(out.glob("*.tar"))]
    seen = []
    for sample in wds.WebDataset(urls, shardshuffle=False).decode():
        name = Path(sample["__key__"]).name
        index = source.index_of(name)
        assert index is not None
        described = sample["json"]
        assert described["label"] == ("bonafide" if source.labels[index] else "spoof")
        assert described["attack"] == source.columns["attack"][index]
        assert described["id"] == source.ids[index]
        assert (described["samples"], described["sample_rate"]) == (4000 + 10 * index, RATE)
        decoded, _ = soundfile.read(io.BytesIO(sample["flac"]), dtype="int16")
        np.testing.assert_array_equal(decoded, samples(index))
        seen.append(name)
    packed = read_list(out / "train_list.txt", out)
    assert seen == [Path(name).stem for name in packed.ids]


def test_a_pack_is_read_as_shards_of_webdataset_too(folder: Path) -> None:
    out, _ = pack(folder)
    trials = read_named("webdataset:train-*.tar", out)
    packed = read_list(out / "train_list.txt", out)
    assert list(trials.ids) == list(packed.ids)
    assert trials.labels.tolist() == packed.labels.tolist()
    assert trials.columns["attack"] == packed.columns["attack"]
    assert set(trials.columns) == {"attack", "speaker", "id", "samples", "sample_rate"}


def test_stopped_anywhere_it_ends_with_the_same_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = pack(folder, "--format", "flac")
    whole = contents(out)
    trials = read_source(folder)
    options = PackOptions("train", 40_000, "flac")
    again = tmp_path / "again"
    encoded = []
    real = _Packing._facts_of

    def stop_at_the_seventh(self: _Packing, index: int) -> Any:
        encoded.append(index)
        if len(encoded) == 7:
            raise KeyboardInterrupt
        return real(self, index)

    monkeypatch.setattr(_Packing, "_facts_of", stop_at_the_seventh)
    with pytest.raises(KeyboardInterrupt):
        pack_list(trials, again, options)
    assert not (again / "train_list.txt").exists()
    # As if killed while it wrote a shard.
    (again / ".train-000001.tar.0123.part").write_bytes(b"x")
    first = pack_list(trials, again, options)
    assert 0 < first.was_there < len(first.shards)
    assert contents(again) == whole
    done = len(encoded)
    second = pack_list(trials, again, options)
    assert (second.was_there, len(encoded)) == (len(first.shards), done)
    assert contents(again) == whole


@pytest.mark.slow
def test_processes_change_no_byte(folder: Path, tmp_path: Path) -> None:
    trials = read_source(folder)
    options = PackOptions("train", 40_000, "flac")
    one = tmp_path / "one"
    pack_list(trials, one, options)
    two = tmp_path / "two"
    pack_list(trials, two, PackOptions("train", 40_000, "flac", processes=1))
    assert contents(one) == contents(two)


def test_the_seed_is_the_order(folder: Path) -> None:
    trials = read_source(folder)
    orders = []
    for number, seed in enumerate((0, 1, None)):
        out = folder.parent / str(number)
        pack_list(trials, out, PackOptions("train", 10**6, seed=seed))
        orders.append([Path(name).stem for name in read_list(out / "train_list.txt", out).ids])
    assert orders[2] == [f"u{number}" for number in range(COUNT)]
    assert len(set(map(tuple, orders))) == 3


def test_another_pack_in_the_folder_is_not_written_over(folder: Path) -> None:
    out, _ = pack(folder)
    with pytest.raises(UsageError, match="format keep there, flac now"):
        pack(folder, "--format", "flac")
    before = contents(out)
    with pytest.raises(UsageError, match="seed 0 there, 3 now"):
        pack(folder, "--seed", "3")
    assert contents(out) == before
    pack(folder, "--name", "other", "--format", "flac")
    assert (out / "other_list.txt").exists() and (out / "other-000000.tar").exists()


def test_recordings_of_another_folder_are_another_pack(folder: Path) -> None:
    packed = folder / "packed"
    pack_list(read_source(folder), packed, PackOptions("train", 20_000))
    moved = folder.rename(folder.with_name("moved"))
    with pytest.raises(UsageError, match=r"folder .* there, .* now"):
        pack_list(read_source(moved), moved / "packed", PackOptions("train", 20_000))


def test_a_shard_that_is_gone_is_not_listed(folder: Path) -> None:
    packed = folder / "packed"
    pack = pack_list(read_source(folder), packed, PackOptions("train", 20_000))
    assert len(pack.shards) > 1
    (packed / "train-000001.tar").unlink()
    with pytest.raises(AsdfError, match=r"train-000001\.tar: the shard or its .* missing"):
        pack_list(read_source(folder), packed, PackOptions("train", 20_000))


def test_lengths_need_not_be_measured_again(folder: Path) -> None:
    out, _ = pack(folder)
    packed = read_list(out / "train_list.txt", out)
    rows = packed_rows(packed)
    assert rows is not None
    for index in range(COUNT):
        path = packed.path(index)
        assert rows[index, 0] == audio_length(path)
    at_8000 = packed_rows(packed, Audio(sample_rate=8000))
    assert at_8000 is not None
    assert at_8000[:, 0].tolist() == [-(-samples // 2) for samples in rows[:, 0].tolist()]
    # Of another tar nothing holds; nor what is damaged.
    tar = sorted(out.glob("*.tar"))[0]
    shards = [name.partition("/")[0] for name in packed.ids]
    tar.write_bytes(tar.read_bytes() + b"\0" * 512)
    known = packed_rows(packed)
    assert known is not None
    assert [row[0] >= 0 for row in known.tolist()] == [name != tar.name for name in shards]
    file = tar.with_name(tar.name + ".lengths")
    file.write_bytes(file.read_bytes().replace(b"\t16000\t", b"\t16001\t", 1))
    assert read_packed_lengths(tar) is None


@pytest.mark.parametrize("check", [True, "once", False])
def test_stage_0_decodes_nothing_of_a_pack_that_was_moved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    out, _ = pack(folder)
    moved = folder.parent / "moved"
    moved.mkdir()
    for file in out.iterdir():
        # As an object store does it: with new times, without the indexes.
        if not file.name.endswith(".index"):
            (moved / file.name).write_bytes(file.read_bytes())
    packed = read_list(moved / "train_list.txt", moved, "train")
    expected = [audio_length(packed.path(index)) for index in range(COUNT)]
    real = lengths.measure_speech
    monkeypatch.delattr(lengths, "measure_speech")
    for _ in range(2):
        saved = folder.parent / "lengths"
        measured = measure_lengths(packed, SpeechActivity(), saved, World(), check=check)
        assert measured.tolist() == expected
    # What a detector of speech leaves is another length.
    monkeypatch.setattr(lengths, "measure_speech", real, raising=False)
    endpoint = SpeechActivity(mode="endpoint")
    shorter = measure_lengths(packed, endpoint, saved, World(), check=check)
    own = [real(packed.path(index), endpoint).speech for index in range(COUNT)]
    assert shorter.tolist() == own


def test_a_recording_that_is_broken_ends_it_or_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a/u3.wav").write_bytes(b"no recording")
    (folder / "a/u4.flac").write_bytes((folder / "a/u4.flac").read_bytes()[:2000])
    with pytest.raises(AsdfError, match=r"u[34].*\n.*--skip-broken leaves out"):
        pack(folder)
    out, status = pack(folder, "--skip-broken", "--name", "rest")
    packed = read_list(out / "rest_list.txt", out)
    stems = {Path(name).stem for name in packed.ids}
    assert (status, stems) == (1, {f"u{number}" for number in range(COUNT)} - {"u3", "u4"})
    error = capsys.readouterr().err
    assert "2 recordings could not be read and were skipped" in error
    assert "u3.wav" in error and "u4.flac" in error
    for index, name in enumerate(packed.ids):
        number = int(Path(name).stem[1:])
        expected = samples(number).astype(np.float32) / 2**15
        np.testing.assert_array_equal(read_audio(packed.path(index)), expected)


def test_missing_recordings_are_named_before_anything_is_written(folder: Path) -> None:
    (folder / "a/u3.wav").unlink()
    (folder / "a/u5.wav").unlink()
    with pytest.raises(AsdfError, match=r"2 of the 12 files.*\n.*u3.wav\n.*u5.wav"):
        pack(folder)
    assert not (folder.parent / "out").exists()


def test_parts_of_recordings_and_floats_become_flac(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(-(2**23), 2**23, 8000).astype(np.int32) << 8
    soundfile.write(tmp_path / "a.wav", whole, 8000, subtype="PCM_24")
    floats = rng.uniform(-1, 1, 8000).astype(np.float32)
    soundfile.write(tmp_path / "f.wav", floats, 8000, subtype="FLOAT")
    names = ["a.wav#t=0.25,0.5", "f.wav#t=0,0.5"]
    trials = TrialList(names, [1, 0], name="parts", folder=tmp_path)
    packed = pack_list(trials, tmp_path / "out", PackOptions("parts", 10**6, seed=None))
    read = read_list(packed.list_file, tmp_path / "out")
    assert list(read.ids) == ["parts-000000.tar/a-0_25-0_5.flac", "parts-000000.tar/f-0-0_5.flac"]
    assert packed.rounded == 1
    at_8000 = Audio(sample_rate=8000)
    first = read_audio(read.path(0), audio=at_8000)
    np.testing.assert_array_equal(first, (whole[2000:4000] / 2**31).astype(np.float32))
    second = read_audio(read.path(1), audio=at_8000)
    np.testing.assert_array_equal(second, np.rint(floats[:4000] * 2.0**23) / 2.0**23)


def test_floats_beyond_full_scale_are_not_clipped_in_silence(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "f.wav", np.full(100, 1.5), RATE, subtype="FLOAT")
    trials = TrialList(["f.wav"], [1], name="loud", folder=tmp_path)
    with pytest.raises(AsdfError, match=r"beyond full scale.*--format keep"):
        pack_list(trials, tmp_path / "out", PackOptions("loud", 10**6, "flac"))
    pack_list(trials, tmp_path / "out", PackOptions("kept", 10**6, "keep"))
    assert read_audio(tmp_path / "out/kept-000000.tar/f.wav").max() == 1.5


@pytest.mark.parametrize("rate", [16000, 22050])
def test_opus_has_every_recording_as_long_as_it_was(tmp_path: Path, rate: int) -> None:
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * rate + 37) / rate)
    soundfile.write(tmp_path / "t.flac", tone, rate)
    trials = TrialList(["t.flac"], [1], name="tones", folder=tmp_path)
    packed = pack_list(trials, tmp_path / "out", PackOptions("tones", 10**6, "opus"))
    path = tmp_path / "out/tones-000000.tar/t.ogg"
    known = read_packed_lengths(tmp_path / "out" / packed.shards[0].name)
    assert known is not None and known[0].size < (tmp_path / "t.flac").stat().st_size
    lossless = read_audio(tmp_path / "t.flac")
    lossy = read_audio(path)
    assert abs(len(lossy) - len(lossless)) <= 1
    shortest = min(len(lossy), len(lossless))
    assert np.corrcoef(lossy[:shortest], lossless[:shortest])[0, 1] > 0.99


def test_recordings_without_labels_are_packed_as_a_list_of_paths(folder: Path) -> None:
    out = folder.parent / "out"
    assert main([str(folder / "a"), str(out), "--shards", "1MB", "--name", "new"]) == 0
    lines = (out / "new_list.txt").read_text().splitlines()
    assert len(lines) == COUNT and lines[0].startswith("new-000000.tar/u")
    with tarfile.open(out / "new-000000.tar") as tar:
        described = [json.load(tar.extractfile(m)) for m in tar if m.name.endswith(".json")]  # type: ignore[arg-type]
    assert all("label" not in each for each in described)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a.flac", "b/a.flac"], ["a", "b/a"]),
        (["a.flac", "a.wav", "a-2.flac"], ["a", "a-2", "a-2-2"]),
        (["/data/x.y/a.b.flac", "../c.flac"], ["data/x.y/a_b", "c"]),
        (["LA.tar/flac/a.flac", "p.parquet/00000017"], ["LA/flac/a", "p/00000017"]),
        (["__a__.flac", "_.flac"], ["a__", "recording"]),
    ],
)
def test_names_of_members(ids: Sequence[str], expected: Sequence[str]) -> None:
    assert member_names(ids) == expected


def test_sizes() -> None:
    assert parse_size("500MB") == 500_000_000
    assert parse_size("2GiB") == 2 * 1024**3
    for text in ("", "0MB", "1", "GB", "1.5"):
        with pytest.raises(UsageError, match="is not a size"):
            parse_size(text)
