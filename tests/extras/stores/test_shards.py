"""Shards and manifests of others, written by the libraries that they are of."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asdf.audio import audio_length, read_audio
from asdf.commands.lists import main as write_lists
from asdf.commands.score_recordings import find_recordings
from asdf.corpora import choose, parse_located
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError, UsageError
from asdf.extras.stores.sets.shards import ShardRows
from asdf.recipe.declared_corpora import Corpus, ReadCorpus, read_chosen, read_named
from asdf.trials.label_words import Columns
from asdf.trials.lists import check_files, read_list

RATE = 16000
LABELS = ["bonafide", "spoof", "spoof", "bonafide", "spoof"]
ATTACKS = ["", "A01", "A02", "", "A01"]


def samples(number: int, seconds: float = 0.5) -> np.ndarray:
    """Return the samples of a recording, of 16 bits."""
    rng = np.random.default_rng(number)
    return rng.integers(-9000, 9000, round(seconds * RATE) + number, dtype=np.int16)


def encoded(number: int, kind: str = "flac") -> bytes:
    content = io.BytesIO()
    soundfile.write(content, samples(number), RATE, format=kind.upper())
    return content.getvalue()


def as_float(number: int) -> np.ndarray:
    return samples(number).astype(np.float32) / 2**15


def read(name: str, folder: Path = Path()) -> ReadCorpus:
    return read_chosen(choose(name), folder)


def write_tar(path: Path, members: Mapping[str, bytes] | Sequence[tuple[str, bytes]]) -> None:
    """Write a tar of what no library would write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in dict(members).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.fixture(scope="module")
def webdataset_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five samples in shards of two, with a .json each."""
    wds = pytest.importorskip("webdataset")
    folder = tmp_path_factory.mktemp("webdataset")
    with wds.ShardWriter(str(folder / "wds-%06d.tar"), maxcount=2, verbose=0) as writer:
        for number, (label, attack) in enumerate(zip(LABELS, ATTACKS, strict=True)):
            described = {"label": label, "attack": attack, "seconds": 0.5, "words": ["a", "b"]}
            # Backwards: the order is that of the shards, not that of the names.
            sample = {"__key__": f"speech/u{9 - number}", "flac": encoded(number)}
            sample |= {"json": described, "txt": "a transcript, which is none of the columns"}
            writer.write({**sample, "cls": int(label == "bonafide")})
    return folder


def test_samples_of_webdataset_are_trials(webdataset_shards: Path) -> None:
    name = f"webdataset:{webdataset_shards}/wds-{{000000..000002}}.tar"
    trials, reading, tree = read(name)
    members = [f"wds-00000{number // 2}.tar/speech/u{9 - number}.flac" for number in range(5)]
    assert list(trials.ids) == members and trials.labels.tolist() == [1, 0, 0, 1, 0]
    attacks = ["-", "A01", "A02", "-", "A01"]
    cells = {"seconds": ["0.5"] * 5, "cls": ["1", "0", "0", "1", "0"]}
    assert trials.columns == {"attack": attacks, **cells}
    assert (trials.name, trials.folder) == (name, webdataset_shards)
    # They are scored with their labels.
    recordings = find_recordings([f"webdataset:{webdataset_shards}"])
    assert list(recordings.labels) == [1, 0, 0, 1, 0]
    assert recordings.names[1] == "wds-000000.tar/speech/u8.flac"
    for number in range(5):
        np.testing.assert_array_equal(read_audio(trials.path(number)), as_float(number))
        assert audio_length(trials.path(number)) == RATE // 2 + number
    check_files([trials])
    assert compare_with_disk(reading, tree) == ([], [])


@pytest.mark.parametrize("pattern", ["wds-*.tar", "", "wds-{000000,000002,000001}.tar"])
def test_shards_are_named_by_patterns_and_folders(webdataset_shards: Path, pattern: str) -> None:
    trials = read(f"webdataset:{pattern or '.'}", webdataset_shards).trials
    shards = [name.partition("/")[0] for name in trials.ids]
    expected = [*(["0"] * 2), *(["1"] * 2), "2"]
    if "{" in pattern:
        expected = ["0", "0", "2", "1", "1"]
    assert shards == [f"wds-00000{number}.tar" for number in expected]


def test_a_number_is_a_label_only_where_the_user_says_what_it_means(webdataset_shards) -> None:
    name = f"webdataset:{webdataset_shards}?label=cls"
    with pytest.raises(AsdfError, match=r"may mean either class.*'0' \(3\), '1' \(2\).*\?bona_fi"):
        read(name)
    assert read(f"{name},bona_fide=1").trials.labels.tolist() == [1, 0, 0, 1, 0]
    assert read(f"{name},bona_fide=0").trials.labels.tolist() == [0, 1, 1, 0, 1]
    with pytest.raises(AsdfError, match=r"no field 'klass'. Fields .*: cls .1., .*attack .A01"):
        read(f"webdataset:{webdataset_shards}?label=klass")


def test_shards_without_labels_are_scored_and_nothing_else(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"x.wav": encoded(0, "wav"), "y.wav": encoded(1, "wav")})
    name = f"webdataset:{tmp_path}/a.tar"
    with pytest.raises(AsdfError, match=r"no field is a label.*\?label=none"):
        read(name)
    recordings = find_recordings([f"{name}?label=none"])
    assert recordings.paths == [f"{tmp_path}/a.tar/x.wav", f"{tmp_path}/a.tar/y.wav"]
    assert list(recordings.labels) == [-1, -1]
    with pytest.raises(UsageError, match=r"2 recordings have no label"):
        write_lists([f"{name}?label=none"])


def test_a_field_without_a_name_is_not_the_label() -> None:
    rows = ShardRows("x.tar")
    rows.add("a.wav", {"": "0", "label": "bonafide"})
    rows.add("b.wav", {"": "1", "label": "spoof"})
    assert rows.trials(Columns()).labels.tolist() == [1, 0]


def test_lists_of_shards_lie_where_the_user_wants_them(webdataset_shards, tmp_path) -> None:
    into = tmp_path / "lists"
    write_lists([f"webdataset:{webdataset_shards}", "--shares", "100,0,0", "-o", str(into)])
    trials = read_list(into / "train_list.txt", into)
    first = (into / sorted(trials.ids)[0]).resolve()
    assert first == webdataset_shards.resolve() / "wds-000000.tar/speech/u8.flac"
    assert sorted(set(trials.columns)) == ["attack", "cls", "seconds"]
    check_files([trials])


def test_a_recipe_names_shards_as_a_corpus(webdataset_shards: Path) -> None:
    name = "webdataset:wds-*.tar?speaker=seconds"
    trials = Corpus(reader=name).read("mine", webdataset_shards)
    assert (len(trials), trials.name) == (5, "mine")
    assert trials.columns["speaker"] == ["0.5"] * 5
    assert len(read_named("webdataset:wds-*.tar~3", webdataset_shards)) == 3


def test_all_that_is_wrong_with_samples_is_one_message(tmp_path: Path) -> None:
    good = json.dumps({"label": "spoof"}).encode()
    sample = encoded(0)
    described = {"ok": good, "broken": b'{"label": "spoof"', "list": b"[1]", "deep": b"[" * 100_000}
    described["huge"] = b'{"a": "' + b"x" * 2**20 + b'"}'
    members: dict[str, bytes] = {}
    for name, text in described.items():
        members |= {f"{name}.flac": sample, f"{name}.json": text}
    members |= {"silent.json": good, "two.left.flac": sample, "two.right.flac": sample}
    write_tar(tmp_path / "a.tar", {**members, "two.json": good})
    with pytest.raises(AsdfError) as error:
        read(f"webdataset:{tmp_path}/a.tar")
    text = str(error.value)
    assert "6 problems" in text
    for part in (
        "a.tar/broken.json: it is not JSON (Expecting",
        "a.tar/list.json: it is JSON, but not an object",
        "a.tar/deep.json: it is not JSON (nested too deeply)",
        "a.tar/huge.json: 1,048,585 bytes are more than a description may have (1 MB)",
        "a.tar/silent: no recording, only .json",
        "a.tar/two: several recordings (left.flac, right.flac): choose one after the name, ?audio=",
    ):
        assert part in text


def test_a_sample_has_a_label_and_one_recording(tmp_path: Path) -> None:
    members = {"a.flac": encoded(0), "a.json": b'{"label": "real"}', "b.flac": encoded(1)}
    write_tar(tmp_path / "a.tar", members)
    with pytest.raises(AsdfError, match=r"a.tar/b.flac: it has no label"):
        read(f"webdataset:{tmp_path}/a.tar")
    members = {"a.left.wav": encoded(0, "wav"), "a.right.wav": encoded(1, "wav")}
    write_tar(tmp_path / "a.tar", {**members, "a.json": b'{"is_fake": true}'})
    trials = read(f"webdataset:{tmp_path}/a.tar?audio=right.wav").trials
    assert (list(trials.ids), trials.labels.tolist()) == (["a.tar/a.right.wav"], [0])


def test_shards_that_do_not_exist_are_named(tmp_path: Path) -> None:
    write_tar(tmp_path / "s-0.tar", {"a.flac": b""})
    empty = tmp_path / "x"
    empty.mkdir()
    with pytest.raises(AsdfError, match=r"2 of the 3 named shards .* 's-1.tar', 's-2.tar'"):
        read("webdataset:s-{0..2}.tar", tmp_path)
    with pytest.raises(AsdfError, match=r"no shards"):
        read(f"webdataset:{empty}")
    with pytest.raises(UsageError, match=r"names 1,000,000,000 shards"):
        read("webdataset:s-{0..999999999}.tar", tmp_path)
    with pytest.raises(UsageError, match=r"write webdataset:PATH"):
        parse_located("webdataset:")


# lhotse


def cut_set(folder: Path) -> Any:
    """Write recordings of two channels, and return cuts of them: parts, and one as it is."""
    lhotse = pytest.importorskip("lhotse")
    (folder / "wav").mkdir(parents=True)
    cuts = []
    for number, label in enumerate(LABELS):
        path = folder / "wav" / f"r{number}.wav"
        both = np.stack([samples(number, 2), samples(number + 50, 2)[: 2 * RATE + number]], axis=1)
        soundfile.write(path, both, RATE)
        recording = lhotse.Recording.from_file(path)
        custom = {"label": label, **({"attack": ATTACKS[number]} if ATTACKS[number] else {})}
        spoken = {"text": "a transcript", "speaker": f"spk{number % 2}", "custom": custom}
        supervision = lhotse.SupervisionSegment(
            f"s{number}", recording.id, start=0, duration=0.5, channel=number % 2, **spoken
        )
        duration = recording.duration if number == 0 else 0.7654321
        span = (round(0.123457 * number, 6), duration, number % 2)
        heard = {"recording": recording, "custom": {"snr": 10 + number}}
        cuts.append(lhotse.MonoCut(f"cut-{number}", *span, supervisions=[supervision], **heard))
    return lhotse.CutSet.from_cuts(cuts)


def test_cuts_of_lhotse_are_read_sample_by_sample_as_lhotse_reads_them(tmp_path: Path) -> None:
    cuts = cut_set(tmp_path)
    cuts.to_file(tmp_path / "cuts.jsonl.gz")
    trials = read(f"lhotse:{tmp_path}/cuts.jsonl.gz").trials
    # A whole recording is its file.
    assert trials.ids[0] == f"{tmp_path}/wav/r0.wav#channel=0"
    assert trials.ids[1] == f"{tmp_path}/wav/r1.wav#t=0.123457,0.8888891&channel=1"
    assert trials.labels.tolist() == [1, 0, 0, 1, 0]
    assert trials.columns["cut"] == [f"cut-{number}" for number in range(5)]
    assert trials.columns["speaker"] == ["spk0", "spk1", "spk0", "spk1", "spk0"]
    assert trials.columns["attack"] == ["-", "A01", "A02", "-", "A01"]
    assert trials.columns["snr"] == ["10", "11", "12", "13", "14"]
    assert set(trials.columns) == {"cut", "speaker", "attack", "snr"}
    for index, cut in enumerate(cuts):
        expected = cut.load_audio()[0]
        np.testing.assert_array_equal(read_audio(trials.path(index)), expected)
        assert audio_length(trials.path(index)) == cut.num_samples
    check_files([trials])


def line(**changes: Any) -> dict[str, Any]:
    """Return a line of a manifest, as lhotse writes it."""
    source = {"type": "file", "channels": [0], "source": "a.wav"}
    recording = {"id": "r", "sources": [source], "sampling_rate": RATE, "num_samples": 2 * RATE}
    recording |= {"duration": 2.0, "channel_ids": [0], **changes.pop("recording", {})}
    described = {"label": "spoof", **changes.pop("custom", {})}
    cut = {"id": "c", "start": 0, "duration": 2.0, "channel": 0, "type": "MonoCut"}
    return {**cut, "recording": recording, "custom": described, **changes}


def write_lines(path: Path, lines: Sequence[Any]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for entry in lines:
            file.write((entry if isinstance(entry, str) else json.dumps(entry)) + "\n")


def test_paths_of_a_manifest_are_relative_to_a_folder_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "manifests"
    folder.mkdir(parents=True)
    soundfile.write(tmp_path / "data" / "a.wav", samples(0, 2), RATE)
    write_lines(folder / "cuts.jsonl.gz", [line(id="c", start=1, duration=0.5)])
    trials = read(f"lhotse:{folder}/cuts.jsonl.gz").trials
    assert (list(trials.ids), trials.folder) == (["a.wav#t=1,1.5"], tmp_path / "data")
    assert read(f"lhotse:{folder}").trials.ids == trials.ids
    with pytest.raises(AsdfError, match=r"is in none of /nowhere.*\?root=FOLDER"):
        read(f"lhotse:{folder}/cuts.jsonl.gz?root=/nowhere")


def test_the_folder_of_a_manifest_comes_before_others(tmp_path: Path, monkeypatch: Any) -> None:
    """Another recording of the name in the folder of corpora or the current one is not heard."""
    (tmp_path / "other").mkdir()
    soundfile.write(tmp_path / "other" / "a.wav", samples(1, 2), RATE)
    (tmp_path / "manifests").mkdir()
    soundfile.write(tmp_path / "manifests" / "a.wav", samples(0, 2), RATE)
    write_lines(tmp_path / "manifests" / "cuts.jsonl.gz", [line()])
    monkeypatch.chdir(tmp_path / "other")
    trials = read("lhotse:../manifests/cuts.jsonl.gz", folder=tmp_path / "other").trials
    np.testing.assert_array_equal(read_audio(trials.path(0)), samples(0, 2) / np.float32(2**15))


@pytest.mark.parametrize("part", [{}, {"start": 0.5, "duration": 1.0}])
@pytest.mark.parametrize("seconds", [1.5, 2.5])
def test_recordings_of_another_length_than_stated_are_refused(seconds, part, tmp_path) -> None:
    soundfile.write(tmp_path / "a.wav", samples(0, 3)[: int(seconds * RATE)], RATE)
    write_lines(tmp_path / "cuts.jsonl.gz", [line(**part)])
    said = rf"other lengths.*\n.*a\.wav: {seconds:.3f} s, not 2\.000 s\n.*\?root=FOLDER"
    with pytest.raises(AsdfError, match=said):
        read(f"lhotse:{tmp_path}/cuts.jsonl.gz")
    # Codecs pad their frames.
    soundfile.write(tmp_path / "a.wav", samples(0, 3)[: 2 * RATE + 700], RATE)
    assert len(read(f"lhotse:{tmp_path}/cuts.jsonl.gz").trials) == 1


def test_cuts_that_are_no_parts_of_recordings_are_refused_by_name(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", samples(0, 2), RATE)
    command = {"type": "command", "channels": [0], "source": "sox a.wav -t wav -"}
    changed = [{"name": "Speed", "kwargs": {"factor": 0.9}}]
    lines: list[Any] = [line(id="ok"), line(id="mix", type="MixedCut")]
    lines.append(line(id="fast", recording={"transforms": changed}))
    lines.append(line(id="far", recording={"sources": [command]}))
    lines += [line(id="wrong", channel=3), {**line(id="mute"), "recording": None}]
    lines += [line(id="negative", start=-1), line(id="none", duration="x"), "{", "[" * 100_000]
    write_lines(tmp_path / "cuts.jsonl.gz", lines)
    with pytest.raises(AsdfError) as error:
        read(f"lhotse:{tmp_path}/cuts.jsonl.gz")
    text = str(error.value)
    for part in (
        "9 problems",
        "line 2: cut 'mix': it is a mix",
        "line 3: cut 'fast': its audio is changed by lhotse (Speed): save it first",
        "line 4: cut 'far'",
        "its source is command",
        "line 5: cut 'wrong'",
        "line 6: cut 'mute': it names no recording",
        "line 7: cut 'negative'",
        "line 8: cut 'none'",
        "line 9: it is not JSON",
        "line 10: it is not JSON",
    ):
        assert part in text, part


def test_a_cut_that_comes_twice_or_has_no_label_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", samples(0, 2), RATE)
    path = tmp_path / "cuts.jsonl.gz"
    write_lines(path, [line(), line(start=1, duration=0.5)])
    with pytest.raises(AsdfError, match=r"line 2: cut 'c' is repeated"):
        read(f"lhotse:{path}")
    write_lines(path, [line(), line(id="d", start=1, duration=0.5, custom={"label": ""})])
    with pytest.raises(AsdfError, match=r"a.wav#t=1,1.5: it has no label"):
        read(f"lhotse:{path}")
    supervisions = [{"custom": {"kind": "real"}}, {"custom": {"kind": "fake"}}]
    write_lines(path, [{**line(supervisions=supervisions), "custom": {}}])
    with pytest.raises(AsdfError, match=r"kind \(real\+fake\)"):
        read(f"lhotse:{path}")


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "cuts.jsonl.gz", "wb") as file:
        for _ in range(20):
            file.write(b"x" * 2**20)
    with pytest.raises(AsdfError, match=r"line 1: the line has more than 4,194,304 characters"):
        read(f"lhotse:{tmp_path}/cuts.jsonl.gz")


def test_manifests_of_recordings_and_supervisions_are_sent_to_lhotse(tmp_path: Path) -> None:
    write_lines(tmp_path / "recordings.jsonl.gz", [line()["recording"]])
    with pytest.raises(AsdfError, match=r"lhotse cut simple -r"):
        read(f"lhotse:{tmp_path}/recordings.jsonl.gz")
    with pytest.raises(AsdfError, match=r"lhotse cut simple -r"):
        read(f"lhotse:{tmp_path}")
    (tmp_path / "cuts.yaml").write_text("")
    with pytest.raises(AsdfError, match=r"lhotse copy OLD NEW.jsonl.gz"):
        read(f"lhotse:{tmp_path}/cuts.yaml")


@pytest.mark.parametrize("kind", ["flac", "wav"])
def test_shar_is_read_as_lhotse_reads_it(tmp_path: Path, kind: str) -> None:
    cuts = cut_set(tmp_path)
    shar = tmp_path / "shar"
    shar.mkdir()
    cuts.to_shar(shar, fields={"recording": kind}, shard_size=2)
    trials, reading, tree = read(f"shar:{shar}")
    assert trials.ids[1] == f"recording.000000.tar/cut-1.{kind}"
    assert trials.labels.tolist() == [1, 0, 0, 1, 0]
    assert trials.columns["attack"] == ["-", "A01", "A02", "-", "A01"]
    lhotse = pytest.importorskip("lhotse")
    pytest.importorskip("lhotse.shar")
    of_shar = list(lhotse.CutSet.from_shar(in_dir=shar))
    assert [cut.id for cut in of_shar] == trials.columns["cut"]
    for index, cut in enumerate(of_shar):
        np.testing.assert_array_equal(read_audio(trials.path(index)), cut.load_audio()[0])
        assert audio_length(trials.path(index)) == cut.num_samples
    assert compare_with_disk(reading, tree) == ([], [])
    check_files([trials])
    # Fields beside it are columns.
    with lhotse.shar.JsonlShardWriter(f"{shar}/generator.%06d.jsonl.gz", shard_size=2) as writer:
        for number, cut in enumerate(cuts):
            writer.write({"cut_id": cut.id, "generator": f"tool-{number}"})
    trials = read(f"shar:{shar}?generator=generator").trials
    assert trials.columns["generator"] == [f"tool-{number}" for number in range(5)]


def test_shar_without_its_tars_or_recordings_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "cuts.000000.jsonl.gz", [line(id="a"), line(id="b"), line(id="b")])
    empty = tmp_path / "x"
    empty.mkdir()
    with pytest.raises(AsdfError, match=r"recording.000000.tar does not exist"):
        read(f"shar:{tmp_path}")
    write_tar(tmp_path / "recording.000000.tar", {"b.flac": encoded(0), "a.nodata": b""})
    with pytest.raises(AsdfError) as error:
        read(f"shar:{tmp_path}")
    assert "line 1: recording.000000.tar has no 'a'" in str(error.value)
    assert "line 3: cut 'b' is repeated" in str(error.value)
    with pytest.raises(AsdfError, match=r"or lhotse:CUTS.jsonl.gz without tars"):
        read(f"shar:{empty}")


# Hugging Face data sets


def hf_dataset(folder: Path, *, inside: bool, names: Sequence[str]) -> Any:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("pyarrow")
    folder.mkdir(exist_ok=True)
    audio = []
    for number in range(5):
        path = folder / f"u{number}.wav"
        path.write_bytes(encoded(number, "wav"))
        content = path.read_bytes() if inside else None
        audio.append({"bytes": content, "path": path.name if inside else str(path)})
    columns = {"audio": audio, "label": [names.index(label) for label in LABELS], "attack": ATTACKS}
    text, binary = datasets.Value("string"), datasets.Value("binary")
    features = {"audio": {"bytes": binary, "path": text}, "attack": text}
    features["label"] = datasets.ClassLabel(names=list(names))
    whole = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    return whole.cast_column("audio", datasets.Audio())


def test_rows_with_paths_alone_are_recordings_of_a_folder(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "b.wav").write_bytes(encoded(1, "wav"))
    outside = tmp_path.parent / "outside.wav"
    outside.write_bytes(encoded(0, "wav"))
    audio = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": None, "path": str(outside)}, {"bytes": None, "path": "b.wav"}]
    table = pa.table({"audio": pa.array(rows, audio), "label": ["fake", "real"]})
    pq.write_table(table, tmp_path / "train.parquet")
    trials = read(f"datasets:{tmp_path}:train").trials
    assert (list(trials.ids), trials.labels.tolist()) == ([str(outside), "b.wav"], [0, 1])
    for number in range(2):
        np.testing.assert_array_equal(read_audio(trials.path(number)), as_float(number))
    rows[1] = {"bytes": None, "path": None}
    table = pa.table({"audio": pa.array(rows, audio), "label": ["fake", "real"]})
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(AsdfError, match="row 1 has neither a recording nor a path"):
        read(f"datasets:{tmp_path}:train")


@pytest.mark.slow
@pytest.mark.parametrize("names", [["bonafide", "spoof"], ["spoof", "bonafide"]])
@pytest.mark.parametrize("inside", [True, False])
def test_parquet_of_the_library_datasets(tmp_path, inside, names) -> None:
    data = tmp_path / "data"
    data.mkdir()
    whole = hf_dataset(tmp_path, inside=inside, names=names)
    whole.to_parquet(str(data / "train-00000-of-00001.parquet"))
    trials, reading, tree = read(f"datasets:{data}:train")
    folder = "train-00000-of-00001.parquet" if inside else tmp_path
    assert trials.ids[2] == f"{folder}/u2.wav"
    assert trials.labels.tolist() == [1, 0, 0, 1, 0]
    assert trials.columns["attack"] == ["-", "A01", "A02", "-", "A01"]
    for number in range(5):
        np.testing.assert_array_equal(read_audio(trials.path(number)), as_float(number))
    assert compare_with_disk(reading, tree) == ([], [])
    check_files([trials])
    with pytest.raises(AsdfError, match=r"no parquet file belongs to a split 'test'"):
        read(f"datasets:{data}:test")


@pytest.mark.slow
def test_what_save_to_disk_writes_is_sent_to_parquet(tmp_path: Path) -> None:
    whole = hf_dataset(tmp_path / "a", inside=True, names=["bonafide", "spoof"])
    whole.save_to_disk(tmp_path / "cache")
    with pytest.raises(AsdfError, match=r"only the library datasets reads.*to_parquet"):
        read(f"datasets:{tmp_path / 'cache'}")
