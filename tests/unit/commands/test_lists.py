"""`python -m asdf lists`: the lists of a folder or a table."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.commands.lists import read_recordings
from asdf.recipe.declared_corpora import find_corpus
from asdf.trials.lists import check_files, read_list
from tests.unit.commands.running import Runner

run = Runner("lists")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten speakers with two recordings of either class each."""
    folder = tmp_path / "data"
    for number in range(40):
        kind = ("real", "fake/vits")[number % 2]
        path = folder / kind / f"S{number // 4}_{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.full(800, 0.1), 16000)
    return folder


def test_a_folder_is_divided_by_speakers(data, capsys):
    status, out, err = run(capsys, data, "--names", "{speaker}_{}", "--shares", "60,20,20")
    assert (status, err) == (0, "")
    assert [line.split()[1:] for line in out.splitlines()] == [
        ["trials", "bona", "fide", "spoof", "speakers", "attacks"],
        ["24", "12", "12", "6", "1"],
        ["8", "4", "4", "2", "1"],
        ["8", "4", "4", "2", "1"],
    ]
    speakers = []
    for name in ("train", "dev", "eval"):
        trials = read_list(data / f"{name}_list.txt", data)
        check_files([trials])
        speakers.append(set(trials.columns["speaker"]))
        assert set(trials.columns["attack"]) == {"-", "vits"}
    assert len(set.union(*speakers)) == sum(map(len, speakers)) == 10
    # A second time the same bytes.
    before = (data / "dev_list.txt").read_bytes()
    run(capsys, data, "--names", "{speaker}_{}", "--shares", "60,20,20")
    assert (data / "dev_list.txt").read_bytes() == before


def test_without_speakers_it_warns_of_more_than_one_list(data, capsys):
    assert run(capsys, data, "--shares", "100,0,0")[::2] == (0, "")
    _, _, err = run(capsys, data, "--shares", "80,20,0")
    assert "warning: the speakers are unknown" in err
    assert not (data / "eval_list.txt").exists()


def test_speakers_from_a_table(data, capsys, tmp_path):
    rows = "".join(f"S{number // 4}_{number};voice{number // 8};f\n" for number in range(40))
    (tmp_path / "meta.csv").write_text(f"name;speaker_id;sex\n{rows}")
    words = (data, "--table", tmp_path / "meta.csv")
    assert run(capsys, *words)[::2] == (0, "")
    trials = read_list(data / "train_list.txt", data)
    assert set(trials.columns) == {"attack", "speaker", "sex"}
    assert {name[:5] for name in trials.columns["speaker"]} == {"voice"}
    unknown = rows.replace("voice0", "-")
    (tmp_path / "meta.csv").write_text(f"name;speaker_id;sex\n{unknown}")
    assert "the speaker of 8 recordings is unknown" in run(capsys, *words)[2]
    (tmp_path / "meta.csv").write_text("name;speaker_id\nS0_0;voice0\n")
    status, _, err = run(capsys, *words)
    assert status != 0 and "has no row for 39 of the 40 recordings" in err


def test_folders_of_splits_are_the_lists(tmp_path, capsys):
    for name in ("train/real/a.wav", "train/fake/b.wav", "test/real/c.wav", "val/fake/d.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(tmp_path / name, np.zeros(800), 16000)
    lists = tmp_path / "lists"
    status, _, err = run(capsys, tmp_path, "--output", lists)
    assert status == 0 and "dev_list.txt has no bona fide recording" in err
    assert (lists / "eval_list.txt").read_text() == "utterance\tlabel\n../test/real/c.wav\t1\n"
    trials = read_list(lists / "train_list.txt", lists)
    check_files([trials])
    assert trials.labels.tolist() == [0, 1]


def test_a_table_of_any_header(data, capsys, tmp_path):
    rows = ["wav,y,spk\n"]
    for path in sorted(data.rglob("*.wav")):
        label, speaker = int("real" in path.parts), path.stem.split("_")[0]
        rows.append(f"{path.relative_to(data)},{label},{speaker}\n")
    (data / "all.csv").write_text("".join(rows))
    words = (data / "all.csv", "--columns", "label=y")
    status, _, err = run(capsys, *words)
    assert status != 0 and "y = '0', '1' may mean either class" in err
    assert run(capsys, *words, "--bona-fide", "1")[::2] == (0, "")
    trials = read_list(data / "train_list.txt", data)
    assert set(trials.columns) == {"speaker"}
    assert trials.labels.tolist() == ["real" in name for name in trials.ids]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shares", "50,50"], "percentages for train, dev and eval"),
        (["--shares", "50,60,-10"], "percentages for train, dev and eval"),
        (["--columns", "label=y"], "--columns is for a table"),
        (["--names", "{}"], "name the parts of a path"),
    ],
)
def test_mistakes(data, capsys, options, message):
    run.refused(capsys, 2, message, data, *options)
    assert not list(data.glob("*_list.txt"))


def test_a_file_is_no_folder_of_lists(data, capsys, tmp_path):
    place = tmp_path / "lists"
    place.write_text("mine")
    run.refused(capsys, 1, "train_list.txt: ", data, "-o", place)
    assert place.read_text() == "mine"


def test_a_folder_and_its_name_are_audited_alike(data):
    by_path = read_recordings(str(data), None, classes=True)
    by_name = read_recordings(f"folder:{data}", None)
    assert by_path.labels.tolist() == by_name.labels.tolist() == [0] * 20 + [1] * 20
    assert by_path.ids == by_name.ids
    assert find_corpus(f"folder:{data}", {}).read("x", Path("/nowhere")).ids == by_path.ids
    # Embeddings of a folder have no labels, as before.
    assert set(read_recordings(str(data), None).labels.tolist()) == {-1}
