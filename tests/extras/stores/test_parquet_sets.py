"""Data sets in parquet: shards as a hub has them, and those of the Arena."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asdf.audio import read_audio
from asdf.corpora import Columns, choose, find_tree, read_known
from asdf.corpora.command import compare_with_disk, main
from asdf.errors import AsdfError, UsageError
from asdf.extras.stores.sets.parquet_sets import read_parquet
from asdf.recipe.declared_corpora import Corpus
from asdf.trials.lists import check_files, open_tree

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
CLASSES = {"label": {"names": ["bonafide", "spoof"], "_type": "ClassLabel"}}


def described(schema: Any, features: dict) -> Any:
    """Return a schema with the description that the library datasets writes."""
    text = json.dumps({"info": {"features": features}})
    return schema.with_metadata({"huggingface": text})


def write_shard(
    path: Path, labels: Sequence[Any], first: int = 0, features: dict | None = None, **columns: Any
) -> None:
    """Write a shard of tones, as the Arena's sets are."""
    names = [f"flac/LA_E_{first + number}.wav" for number in range(len(labels))]
    audio = []
    for number in range(len(labels)):
        file = path.parent / "x.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(file, np.full(1600 + first + number, 0.25), 16000)
        audio.append({"bytes": file.read_bytes(), "path": None})
        file.unlink()
    values = {"path": names, "audio": pa.array(audio, AUDIO), "label": labels, **columns}
    table = pa.table(values)
    if features:
        table = table.cast(described(table.schema, features))
    pq.write_table(table, path, row_group_size=2)


def write_arena(folder: Path, features: dict | None = CLASSES) -> None:
    notes = []
    for row, attack in enumerate(("bonafide", "A07", "A08")):
        described = {"utterance_id": f"LA_E_{row}", "speaker_id": "LA_1", "attack_id": attack}
        notes.append(json.dumps(described))
    data = folder / "data"
    write_shard(data / "test-00000-of-00002.parquet", [0, 1, 1], 0, features, notes=notes)
    notes = [json.dumps({"utterance_id": "LA_E_3", "codec": "opus\tx"})]
    write_shard(data / "test-00001-of-00002.parquet", [0], 3, features, notes=notes)
    pq.write_table(pa.table({"utterance_id": ["LA_E_0"], "label": [0]}), data / "labels.parquet")


@pytest.mark.parametrize("home", ["ASVspoof2019_LA", "arena/ASVspoof2019_LA"])
@pytest.mark.parametrize("features", [CLASSES, None])
def test_a_set_of_the_arena(tmp_path: Path, home: str, features: dict | None) -> None:
    """In its sets bona fide is 0, and shards may come without their description."""
    write_arena(tmp_path / home, features)
    chosen = choose("arena:ASVspoof2019_LA")
    tree = find_tree(chosen.corpus, tmp_path)
    trials, reading = read_known(chosen, tree)
    shards = [f"{home}/data/test-0000{number}-of-00002.parquet" for number in (0, 0, 0, 1)]
    assert trials.ids == [f"{shard}/flac/LA_E_{row}.wav" for row, shard in enumerate(shards)]
    assert trials.labels.tolist() == [1, 0, 0, 1]
    columns = {"utterance_id": [f"LA_E_{row}" for row in range(4)], "speaker": ["LA_1"] * 3 + [""]}
    columns |= {"attack": ["-", "A07", "A08", "-"], "codec": ["", "", "", "opus x"]}
    assert trials.columns == columns
    assert trials.index_of("LA_E_2") == 2
    assert [len(read_audio(trials.path(row))) for row in range(4)] == [1600, 1601, 1602, 1603]
    assert compare_with_disk(reading, tree) == ([], [])
    check_files([trials])


def test_the_arenas_folder_itself_and_one_that_lacks_the_set(tmp_path, capsys) -> None:
    write_arena(tmp_path / "InTheWild")
    assert main(["arena:InTheWild", str(tmp_path / "InTheWild")]) == 1
    shown = capsys.readouterr().out
    assert "4: 2 bona fide, 2 spoof" in shown and "published 31,779" in shown
    with pytest.raises(AsdfError, match=r"no folder ODSS\. Download the set: hf download "):
        main(["arena:ODSS", str(tmp_path)])
    with pytest.raises(AsdfError, match="name one of the Arena's sets, as in 'arena:InTheWild'"):
        main(["arena", str(tmp_path)])


def write_hub(folder: Path) -> None:
    write_shard(folder / "data/train-00000-of-00001-0a1b2c.parquet", ["real", "fake"], 0)
    write_shard(folder / "default/test/0000.parquet", ["real"], 5, system=["vits"])
    write_shard(folder / "default/test/0001.parquet", ["fake"], 6, system=["vits"], n=[1.5])


def test_splits(tmp_path: Path) -> None:
    write_hub(tmp_path)
    tree = open_tree(tmp_path)
    test = read_parquet(tree, "test")
    rows = ("0000.parquet/flac/LA_E_5.wav", "0001.parquet/flac/LA_E_6.wav")
    assert test.trials.ids == [f"default/test/{row}" for row in rows]
    # A number with a fraction is no condition.
    assert test.trials.columns == {"system": ["vits", "vits"]}
    assert len(read_parquet(tree, "train").trials) == 2 and len(read_parquet(tree, "").trials) == 4
    with pytest.raises(AsdfError, match=r"no parquet file belongs to a split 'dev'\. There are te"):
        read_parquet(tree, "dev")
    with pytest.raises(AsdfError, match="no parquet files found"):
        read_parquet(open_tree(tmp_path / "data"), "", under="none")


def test_labels_are_not_guessed(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.parquet", [0, 1])
    with pytest.raises(AsdfError, match=r"a\.parquet, row 0: label = 0: its meaning is not known"):
        read_parquet(open_tree(tmp_path), "")
    zero = read_parquet(open_tree(tmp_path), "", Columns(bona_fide="0"))
    one = read_parquet(open_tree(tmp_path), "", Columns(bona_fide="1"))
    assert zero.trials.labels.tolist() == [1, 0] and one.trials.labels.tolist() == [0, 1]
    with pytest.raises(UsageError, match="has no column 'lable': it has path, audio, label"):
        read_parquet(open_tree(tmp_path), "", Columns({"label": "lable"}))
    pq.write_table(pa.table({"audio": pa.array([b"x"], pa.binary())}), tmp_path / "a.parquet")
    with pytest.raises(AsdfError, match=r"has no column of labels: it has audio\. Declare it"):
        read_parquet(open_tree(tmp_path), "")


def test_the_only_column_whose_classes_are_labels_is_the_label(tmp_path: Path) -> None:
    table = pa.table({"path": ["a", "b"], "audio": [b"a", b"b"], "voice": [0, 1], "room": [1, 0]})
    classes = {"voice": {"names": ["fake", "real"]}, "room": {"names": ["hall", "studio"]}}
    pq.write_table(table.cast(described(table.schema, classes)), tmp_path / "test.parquet")
    trials = read_parquet(open_tree(tmp_path), "test").trials
    assert (trials.labels.tolist(), trials.columns) == ([0, 1], {"room": ["studio", "hall"]})


@pytest.mark.parametrize("value", [["spoof"], {"class": "spoof"}])
def test_a_column_of_several_values_is_no_column_of_labels(tmp_path: Path, value: Any) -> None:
    write_shard(tmp_path / "train.parquet", [value], kind=["fake"])
    with pytest.raises(AsdfError) as error:
        read_parquet(open_tree(tmp_path), "")
    assert f"train.parquet, row 0: label = {value!r} is not a single value" in str(error.value)
    assert str(error.value).endswith("the columns are path, audio, label, kind.")
    columns = Columns(names={"label": "kind"})
    assert read_parquet(open_tree(tmp_path), "", columns).trials.labels.tolist() == [0]


def test_a_corpus_declares_its_columns(tmp_path: Path) -> None:
    """A boolean, and the names of classes, under other names than usual."""
    features = {"speaker_number": {"names": ["anna", "ben"]}}
    values = {"is_fake": [False, True], "speaker_number": [1, 0]}
    write_shard(tmp_path / "db/mine/train.parquet", [7, 8], features=features, **values)
    columns = {"label": "is_fake", "speaker": "speaker_number", "version": "label"}
    corpus = Corpus(reader="parquet", folder="mine", columns=columns, bona_fide="False")
    trials = corpus.read("mine", tmp_path / "db")
    assert trials.labels.tolist() == [1, 0] and trials.name == "mine"
    assert trials.columns == {"speaker": ["ben", "anna"], "version": ["7", "8"]}
    check_files([trials])
    with pytest.raises(UsageError, match="columns and bona_fide are for lists, parquet"):
        Corpus(reader="in-the-wild", folder="mine", bona_fide="0").read("x", tmp_path / "db")


def test_paths_next_to_the_table(tmp_path: Path) -> None:
    """A table without bytes names recordings in its own folder."""
    (tmp_path / "set/a").mkdir(parents=True)
    soundfile.write(tmp_path / "set/a/1.wav", np.zeros(1600), 16000)
    table = pa.table({"file_name": ["a/1.wav", "a/2.wav"], "label": ["bonafide", "spoof"]})
    pq.write_table(table, tmp_path / "set/metadata.parquet")
    reading = read_parquet(open_tree(tmp_path), "")
    assert reading.trials.ids == ["set/a/1.wav", "set/a/2.wav"]
    assert reading.trials.labels.tolist() == [1, 0]
    assert compare_with_disk(reading, open_tree(tmp_path)) == (["set/a/2.wav"], [])


def test_a_list_in_parquet(tmp_path: Path) -> None:
    """As DeepFense has them: paths are relative to the folder of the corpus, not to the list."""
    (tmp_path / "odss/natural").mkdir(parents=True)
    soundfile.write(tmp_path / "odss/natural/1.wav", np.zeros(1600), 16000)
    soundfile.write(tmp_path / "odss/2.wav", np.zeros(1600), 16000)
    columns = {"ID": ["1", "2"], "path": ["natural/1.wav", "2.wav"]}
    columns |= {"label": ["bonafide", "spoof"], "dataset_name": ["ODSS", "ODSS"]}
    table = pa.table(columns)
    (tmp_path / "odss/lists").mkdir()
    pq.write_table(table, tmp_path / "odss/lists/train.parquet")
    trials = Corpus("lists/train.parquet", folder="odss").read("odss", tmp_path)
    assert trials.ids == ["natural/1.wav", "2.wav"] and trials.labels.tolist() == [1, 0]
    assert trials.columns == {"ID": ["1", "2"], "dataset_name": ["ODSS", "ODSS"]}
    check_files([trials])
    turned = Corpus("lists/train.parquet", folder="odss", bona_fide="spoof").read("odss", tmp_path)
    assert turned.labels.tolist() == [0, 1]
    pq.write_table(pa.table({"path": ["a"]}), tmp_path / "odss/lists/train.parquet")
    with pytest.raises(AsdfError, match="is not a list: it needs columns of paths and of labels"):
        Corpus("lists/train.parquet", folder="odss").read("odss", tmp_path)


@pytest.mark.parametrize("itself", [False, True])
def test_a_set_of_labels_alone(tmp_path: Path, itself: bool) -> None:
    """Its audio may not be passed on, and is put next to the labels by the user."""
    folder = tmp_path / "ADD22_eval_31"
    (folder / "data").mkdir(parents=True)
    (folder / "track3test").mkdir()
    labels = pa.array([0, 1], pa.int8())
    table = pa.table({"utterance_id": ["ADD_E3_1", "ADD_E3_2"], "label": labels})
    pq.write_table(table, folder / "data/labels.parquet")
    for number in (1, 2):
        soundfile.write(folder / f"track3test/ADD_E3_{number}.wav", np.zeros(1600), 16000)
    tree = open_tree(folder if itself else tmp_path)
    trials, reading = read_known(choose("arena:ADD22_eval_31"), tree)
    home = "" if itself else "ADD22_eval_31/"
    names = [f"{home}track3test/ADD_E3_{number}.wav" for number in (1, 2)]
    assert trials.ids == names and trials.labels.tolist() == [1, 0]
    assert trials.columns == {"utterance_id": ["ADD_E3_1", "ADD_E3_2"]}
    assert next(iter(reading.notes)).startswith("the set has only labels")
    check_files([trials])
    assert compare_with_disk(reading, tree) == ([], [])
    (folder / "track3test/ADD_E3_2.wav").unlink()
    trials, _ = read_known(choose("arena:ADD22_eval_31"), tree)
    assert trials.ids == [names[0], f"{home}ADD_E3_2.wav"]
    table = pa.table({"utterance_id": ["ADD_E3_1"], "label": [2]})
    pq.write_table(table, folder / "data/labels.parquet")
    with pytest.raises(AsdfError, match="row 1: the label 2 is neither 0 nor 1"):
        read_known(choose("arena:ADD22_eval_31"), tree)


def test_a_table_of_labels_without_its_columns(tmp_path: Path) -> None:
    table = tmp_path / "CFAD" / "data" / "labels.parquet"
    table.parent.mkdir(parents=True)
    pq.write_table(pa.table({"utterance": ["a"], "label": [0]}), table)
    message = r"labels\.parquet has no column 'utterance_id', but utterance, label\."
    with pytest.raises(AsdfError, match=message):
        read_known(choose("arena:CFAD"), open_tree(tmp_path))


@pytest.mark.parametrize("notes", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "9" * 5000])
def test_notes_that_json_cannot_hold_are_text(tmp_path: Path, notes: str) -> None:
    path = tmp_path / "test.parquet"
    table = pa.table({"path": ["a"], "audio": [b"a"], "label": ["spoof"], "notes": [notes]})
    pq.write_table(table, path)
    trials = read_parquet(open_tree(tmp_path), "test").trials
    assert list(trials.columns["notes"]) == [notes]
