"""Data of one's own: folders such as real/ and fake/, and those of Kaldi and WeDefense."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.corpora import choose, columns_from_names, parse_located, read_class_folders, split_trials
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.trials.lists import check_files, open_tree
from asdf.trials.trial_list import TrialList

# What the registry's test looks for: a small tree of "folder".


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def labels(folder: Path, split: str = "", bona_fide: tuple[str, ...] = ()) -> dict[str, int]:
    trials = read_class_folders(open_tree(folder), split, bona_fide).trials
    return dict(zip(trials.ids, trials.labels.tolist(), strict=True))


def test_the_folders_on_the_way_say_the_class(tmp_path):
    bona_fide = ("real/a", "mine/bona-fide/deep/b", "Genuine/c", "real_speech/d", "bonafide/e")
    spoofed = ("Fake/x/a", "ai_speech/b", "Deepfake/c", "AI-generated/d", "spoof/e")
    expected = {f"{name}.wav": 1 for name in bona_fide} | {f"{name}.mp3": 0 for name in spoofed}
    make(tmp_path, *expected)
    assert labels(tmp_path) == expected


def test_splits_are_folders_above_or_below(tmp_path):
    train = ("training/real/a.wav", "training/fake/b.wav")
    make(tmp_path, *train, "real/test/c.wav", "fake/val/d.wav")
    assert labels(tmp_path, "train") == {"training/real/a.wav": 1, "training/fake/b.wav": 0}
    assert labels(tmp_path, "training") == labels(tmp_path, "train")
    assert labels(tmp_path, "dev") == {"fake/val/d.wav": 0}
    reading = read_class_folders(open_tree(tmp_path), "eval")
    assert reading.trials.columns == {"split": ["eval"]}
    missing, unnamed = compare_with_disk(reading, open_tree(tmp_path))
    assert (missing, unnamed) == ([], [])
    with pytest.raises(AsdfError, match="belongs to a split 'x'; found: dev, eval, train"):
        labels(tmp_path, "x")


def test_folders_of_spoofs_are_attacks_unless_speech_has_the_same(tmp_path):
    make(tmp_path / "one", "real/a.wav", "fake/vits/b.wav", "fake/xtts/c.wav")
    columns = read_class_folders(open_tree(tmp_path / "one"), "").trials.columns
    assert columns == {"attack": ["vits", "xtts", "-"]}
    make(tmp_path / "two", "real/ann/a.wav", "fake/ann/b.wav")
    columns = read_class_folders(open_tree(tmp_path / "two"), "").trials.columns
    assert columns == {"folder": ["ann", "ann"]}


def test_what_no_folder_says_is_noted_and_what_they_contradict_refused(tmp_path):
    make(tmp_path, "real/a.wav", "fake/b.wav", "other/c.wav", "d.wav")
    reading = read_class_folders(open_tree(tmp_path), "")
    assert reading.notes == [
        "recordings not below a folder named after a class, left out: 2, such as d.wav"
    ]
    make(tmp_path / "real", "fake/e.wav")
    with pytest.raises(AsdfError, match=r"both classes: real \(bona fide\), fake \(spoof\)"):
        labels(tmp_path)


def test_unknown_words_are_shown_and_can_be_stated(tmp_path):
    make(tmp_path, "people/a.wav", "voices/b.wav", "voices/c.wav")
    with pytest.raises(AsdfError, match=r"Folders in it: 'voices', 'people'.*--bona-fide NAME"):
        labels(tmp_path)
    expected = {"people/a.wav": 1, "voices/b.wav": 0, "voices/c.wav": 0}
    assert labels(tmp_path, "", ("people",)) == expected
    with pytest.raises(AsdfError, match="no recordings found"):
        labels(make(tmp_path / "empty", "x.txt"))


def test_a_config_names_a_folder(tmp_path):
    make(tmp_path / "my/data", "train/real/a.wav", "train/fake/b.wav", "dev/real/c.wav")
    corpus = find_corpus("folder:my/data:train", {})
    trials = corpus.read("folder:my/data:train", tmp_path)
    assert trials.ids == ["train/fake/b.wav", "train/real/a.wav"]
    assert trials.labels.tolist() == [0, 1]
    assert trials.path(0) == tmp_path / "my/data/train/fake/b.wav"
    assert trials.name == "folder:my/data:train"
    assert set_parts("folder:my/data:train+mlaad", {}) == ["folder:my/data:train", "mlaad"]
    stated = find_corpus("folder:my/data?bona_fide=train", {})
    assert stated.read("x", tmp_path).labels.tolist() == [0, 1, 1]
    declared = Corpus(reader="folder:my/data", bona_fide="train")
    assert declared.read("x", tmp_path).labels.tolist() == [0, 1, 1]


def test_lists_that_were_written_are_splits_where_no_folders_are(tmp_path):
    names = [f"{kind}/{name}.wav" for kind in ("real", "fake") for name in "abcd"]
    folder = make(tmp_path / "my", *names)
    with pytest.raises(AsdfError, match=r"found: none\..*or write lists: python -m asdf lists"):
        find_corpus("folder:my:dev", {}).read("x", tmp_path)
    assert main(["lists", str(folder), "--shares", "50,25,25"]) == 0
    found = {}
    for split in ("train", "dev", "eval"):
        trials = find_corpus(f"folder:my:{split}", {}).read(f"folder:my:{split}", tmp_path)
        assert trials.name == f"folder:my:{split}"
        assert trials.path(0) == folder / trials.ids[0]
        found[split] = dict(zip(trials.ids, trials.labels.tolist(), strict=True))
    assert [len(one) for one in found.values()] == [4, 2, 2]
    joined = {**found["train"], **found["dev"], **found["eval"]}
    assert joined == {name: int(name.startswith("real")) for name in names}
    assert labels(folder, "validation") == found["dev"]
    reading = read_class_folders(open_tree(folder), "test")
    missing, unnamed = compare_with_disk(reading, open_tree(folder))
    assert (missing, unnamed) == ([], [])
    # Folders of splits are what they were, whatever lists lie next to them.
    make(folder, "train/real/e.wav")
    assert labels(folder, "train") == {"train/real/e.wav": 1}


def test_names_that_cannot_be_meant_are_refused():
    for name in ("folder:", "folder:a:b:c", "hub::test", "folder:a?label"):
        with pytest.raises(UsageError, match=r"write|after the"):
            choose(name)
    located = parse_located("hub:org/set/en@v1:test?label=y,bona_fide=0")
    assert located is not None
    assert (located.where, located.split) == ("org/set/en@v1", "test")
    assert (located.columns.names, located.columns.bona_fide) == ({"label": "y"}, "0")
    assert parse_located("mlaad:de") is None


def trials_of(speakers: dict[str, int], attacks: tuple[str, ...] = ("A", "B")) -> TrialList:
    """Return as many trials of each speaker as stated, a bona fide one after each spoof."""
    ids = [f"{name}/{number}" for name, count in speakers.items() for number in range(count)]
    spoken = [name.split("/")[0] for name in ids]
    numbers = [int(name.split("/")[1]) for name in ids]
    kinds = ["-" if n % 2 else attacks[n // 2 % len(attacks)] for n in numbers]
    return TrialList(
        ids, np.array([n % 2 for n in numbers]), columns={"speaker": spoken, "attack": kinds}
    )


def test_speakers_are_apart_and_lists_have_their_shares():
    trials = trials_of({f"S{number}": 8 for number in range(50)})
    lists = split_trials(trials, {"train": 0.7, "dev": 0.1, "eval": 0.2}, seed=3)
    assert sorted(np.concatenate(list(lists.values()))) == list(range(400))
    speakers = {name: {trials.columns["speaker"][i] for i in part} for name, part in lists.items()}
    assert [len(known) for known in speakers.values()] == [35, 5, 10]
    assert not speakers["train"] & speakers["dev"] and not speakers["dev"] & speakers["eval"]
    # Each speaker has four bona fide trials and two of either attack.
    of_eval = Counter(trials.columns["attack"][i] for i in lists["eval"])
    assert of_eval == {"-": 40, "A": 20, "B": 20}


def test_without_speakers_every_class_and_attack_has_its_share():
    trials = trials_of({"": 400})
    lists = split_trials(trials, {"train": 0.8, "dev": 0.2})
    assert Counter(trials.columns["attack"][i] for i in lists["dev"]) == {"-": 40, "A": 20, "B": 20}


def test_the_seed_and_the_trials_alone_decide():
    trials = trials_of({f"S{number}": 4 for number in range(20)})
    shares = {"train": 0.5, "dev": 0.5}
    first = split_trials(trials, shares, seed=1)
    assert (first["dev"] == split_trials(trials, shares, seed=1)["dev"]).all()
    assert (first["dev"] != split_trials(trials, shares, seed=2)["dev"]).any()
    # Another order of the same trials gives the same lists.
    order = np.random.default_rng(0).permutation(len(trials))
    moved = split_trials(trials.select(order), shares, seed=1)
    assert {trials.ids[i] for i in first["dev"]} == {trials.ids[order[i]] for i in moved["dev"]}


def test_lists_of_earlier_versions_stay_the_same():
    """With exactly rounded sums, three of these speakers would be in another list."""
    attacks = ["A2", "A2", "A0", "A2", "A1", "-", "A2", "A2", "A2", "A0", "-", "-", "A2", "A0"]
    trials = TrialList(
        [f"u{number:02d}" for number in range(14)],
        np.array([attack == "-" for attack in attacks], np.int8),
        columns={"speaker": list("40003404432301"), "attack": attacks},
    )
    lists = split_trials(trials, {"train": 0.5, "dev": 0.5})
    assert lists["dev"].tolist() == [0, 4, 5, 7, 8, 9, 11]


def test_too_few_speakers_for_the_lists():
    with pytest.raises(AsdfError, match="2 speakers or recordings are too few for 3 lists"):
        split_trials(trials_of({"S": 4, "T": 4}), {"train": 0.7, "dev": 0.2, "eval": 0.1})


def test_columns_from_names():
    ids = ["real/p225_001.wav", "fake/vits/p226_002_x.flac"]
    assert columns_from_names(ids, ["{speaker}_{}"]) == {"speaker": ["p225", "p226"]}
    patterns = ["fake/{attack}/{speaker}_{}", "{speaker}_{text}"]
    assert columns_from_names(ids, patterns) == {
        "attack": ["", "vits"],
        "speaker": ["p225", "p226"],
        "text": ["001", ""],
    }
    with pytest.raises(AsdfError, match=r"1 of 2 paths do not match, such as 'real/p225_001.wav'"):
        columns_from_names(ids, ["vits/{speaker}_{}"])
    for pattern in ("{}", "name", "{a}_{a}", "{label}_{}"):
        with pytest.raises(UsageError, match="name the parts of a path"):
            columns_from_names(ids, [pattern])


def test_paths_in_the_folder_and_outside_of_it(lay, read, tmp_path):
    outside = lay(empty="LA_T_2.flac\nx y.flac", folder="audio")
    files = {
        "train/wav.scp": f"LA_T_1 {tmp_path}/data/wavs/LA_T_1.flac\nLA_T_2 {outside}/LA_T_2.flac\n"
        f"LA_T_3 {outside}/x y.flac\nLA_T_4 wavs/LA_T_4.flac\n",
        "train/utt2lab": "LA_T_1 bonafide\nLA_T_2 spoof\nLA_T_3 spoof\n",
        "train/utt2spk": "LA_T_1 LA_0079\nLA_T_2 LA_0080\n",
    }
    root = lay(files, "wavs/LA_T_1.flac\nwavs/LA_T_4.flac", folder="data")
    trials, reading = read("kaldi:train", root)
    assert trials.ids == ["wavs/LA_T_1.flac", f"{outside}/LA_T_2.flac", f"{outside}/x y.flac"]
    assert trials.labels.tolist() == [1, 0, 0]
    assert trials.columns == {
        "utterance_id": ["LA_T_1", "LA_T_2", "LA_T_3"],
        "speaker": ["LA_0079", "LA_0080", ""],
    }
    assert list(reading.notes) == ["utterances of wav.scp without a label, left out: 1"]
    check_files([trials])
    assert compare_with_disk(reading, open_tree(root)) == ([], [])
    mine = Corpus(reader="kaldi:train", folder="data").read("mine", tmp_path)
    assert mine.ids == trials.ids and mine.index_of("LA_T_2") == 1


@pytest.mark.parametrize(
    ("scp", "labels", "message"),
    [
        ("a flac -c -d a.flac |\n", "a spoof\n", "line 1: 'flac -c -d a.flac |' is a command"),
        ("a\n", "a spoof\n", "wav.scp, line 1: expected 'UTTERANCE VALUE', found 'a'."),
        ("a x\na y\n", "a spoof\n", "wav.scp, line 2: a is in the file twice: remove one"),
        ("a x\n", "b spoof\n", "utt2lab: b is not in wav.scp: "),
        ("a x\n", "a A07\n", "the label 'A07' of a means neither bona fide nor spoof,"),
        ("a x\nb ./x\n", "a spoof\nb spoof\n", "line 2: './x' is already in line 1"),
    ],
)
def test_what_does_not_fit(lay, read, scp, labels, message):
    root = lay({"wav.scp": scp, "utt2lab": labels})
    with pytest.raises(AsdfError) as caught:
        read("kaldi", root)
    assert message in str(caught.value)


def test_a_folder_without_labels(lay, read):
    root = lay({"wav.scp": "a x\n"})
    with pytest.raises(AsdfError, match=r"there is no file .*utt2lab"):
        read("kaldi", root)
