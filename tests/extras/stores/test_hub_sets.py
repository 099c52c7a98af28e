"""Data sets of a hub on this machine: what a name means, what is downloaded, and how it is read."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.audio import read_audio
from asdf.corpora.command import main as corpora_command
from asdf.errors import AsdfError, UsageError
from asdf.extras.stores.sets.parquet_sets import download_dataset
from asdf.hub import parse_dataset
from asdf.recipe.declared_corpora import Corpus, find_corpus
from asdf.trials.lists import check_files

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def shard(first: int, **columns: list) -> bytes:
    """Return a parquet file of tones, which are as loud as their number says."""
    rows = len(next(iter(columns.values())))
    audio = []
    for number in range(first, first + rows):
        file = io.BytesIO()
        soundfile.write(file, np.full(1600, number / 100), 16000, format="FLAC")
        audio.append({"bytes": file.getvalue(), "path": f"{number}.flac"})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"audio": pa.array(audio, kind), **columns})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.fixture
def repository(hub):
    repository = hub.repository("org/set")
    shards = {
        "train-00000-of-00002": shard(0, label=["real", "fake"], spk=["a", "b"]),
        "train-00001-of-00002": shard(2, label=["real"], spk=["c"]),
        "test-00000-of-00001": shard(3, label=["fake"], spk=["d"]),
    }
    files = {f"data/{name}.parquet": content for name, content in shards.items()}
    repository.commit({"README.md": b"# a set", **files})
    return repository


def test_a_config_names_a_data_set(hub, repository, tmp_path):
    name = "hub:org/set:train?speaker=spk"
    trials = find_corpus(name, {}).read(name, tmp_path)
    assert (trials.labels.tolist(), trials.name) == ([1, 0, 1], name)
    assert trials.ids[0] == "data/train-00000-of-00002.parquet/0.flac"
    assert trials.columns == {"speaker": ["a", "b", "c"]}
    check_files([trials])
    assert float(read_audio(trials.path(2))[0]) == pytest.approx(0.02, abs=1e-4)
    # The other split was not downloaded, and the folder is the commit.
    assert trials.folder.name == repository.refs["main"]
    assert not (trials.folder / "data/test-00000-of-00001.parquet").exists()
    assert trials.folder.parts[-3] == "datasets--org--set"


def test_the_second_time_nothing_is_fetched(hub, repository):
    first = download_dataset("org/set", "test")
    hub.requests.clear()
    assert download_dataset("org/set", "test") == first
    assert [path for _, path, _ in hub.requests] == ["/api/datasets/org/set/revision/main"]
    commit = repository.refs["main"]
    assert download_dataset(f"org/set@{commit}", "test") == first
    assert not hub.contents()


def test_several_splits_or_configurations_are_to_be_named(hub, repository):
    with pytest.raises(UsageError, match="name the split: hub:org/set:test, hub:org/set:train"):
        download_dataset("org/set")
    with pytest.raises(AsdfError, match=r"no split 'tran'. Did you mean 'train'\?"):
        download_dataset("org/set", "tran")
    names = ("en/test-00000-of-00001", "de/test/0000", "de/train/0000")
    files = {f"{name}.parquet": shard(number, label=["fake"]) for number, name in enumerate(names)}
    hub.repository("org/many").commit(files)
    with pytest.raises(UsageError, match="configuration: hub:org/many/de, hub:org/many/en"):
        download_dataset("org/many", "test")
    assert download_dataset("org/many/en")[1] == ["en/test-00000-of-00001.parquet"]
    assert download_dataset("org/many/de", "test")[1] == ["de/test/0000.parquet"]
    with pytest.raises(AsdfError, match=r"no configuration 'fr'.* It has de, en"):
        download_dataset("org/many/fr", "test")


def test_what_is_no_data_set_in_parquet(hub, repository):
    hub.repository("org/zips").commit({"audio.zip": b"x"})
    with pytest.raises(AsdfError, match=r"no parquet files, but 'audio.zip'.*refs/convert/parquet"):
        download_dataset("org/zips")
    with pytest.raises(AsdfError, match=r"no such data set.*/datasets/org/none"):
        download_dataset("org/none")
    for name in ("org", "org/a/b/c", "org//a"):
        with pytest.raises(UsageError, match="is not a data set of the hub"):
            parse_dataset(name)


def test_labels_of_any_column(hub, tmp_path):
    numbers = shard(0, is_fake=[True, False], bonus=[1, 2])
    hub.repository("org/flags").commit({"train-00000-of-00001.parquet": numbers})
    trials = find_corpus("hub:org/flags", {}).read("x", tmp_path)
    assert trials.labels.tolist() == [0, 1]
    hub.repository("org/odd").commit({"train.parquet": shard(0, y=[7, 8])})
    with pytest.raises(AsdfError, match=r"no column of labels: it has audio, y.*hub:ORG/NAME"):
        find_corpus("hub:org/odd", {}).read("x", tmp_path)
    declared = Corpus(reader="hub:org/odd", columns={"label": "y"}, bona_fide="8")
    assert declared.read("x", tmp_path).labels.tolist() == [0, 1]
    named = find_corpus("hub:org/odd?label=y,bona_fide=7", {})
    assert named.read("x", tmp_path).labels.tolist() == [1, 0]


def test_the_command_checks_one(hub, repository, tmp_path, capsys):
    assert corpora_command(["hub:org/set:train", "--trials", str(tmp_path / "t.tsv")]) == 0
    out = capsys.readouterr().out
    assert "trials       3: 2 bona fide, 1 spoof" in out and "all there" in out
    assert (tmp_path / "t.tsv").read_text().startswith("utterance\tlabel\tspk\n")


def test_score_files_of_such_names_have_no_folders_in_theirs():
    from asdf.runs.layout import Layout, NetworkName, corpus_of_file

    name = "hub:org/set:test"
    path = Layout(Path("run")).score_file(NetworkName("best"), name)
    assert path.as_posix() == "run/scores/best/hub:org%2Fset:test.txt"
    assert corpus_of_file(path) == name
    for other in ("asvspoof21-la:eval", "folder:a%2Fb/c", "100%"):
        path = Layout(Path("run")).score_file(NetworkName("best"), other)
        assert corpus_of_file(path) == other
    assert json.dumps(name)
