"""Tables of recordings under any header: which columns are found, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.trials.label_words import Columns, label_of, meaning_of
from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList


def read(folder: Path, text: str, columns: Columns | None = None) -> TrialList:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return read_list(path, folder, "mine", columns)


@pytest.mark.parametrize(
    "text",
    [
        "wav_file;truth\na.wav;Genuine\nb.flac;deep-fake\n",
        "filename\tcategory\na.wav\tHuman\nb.flac\tAI generated\n",
        "id,clip,is_fake\n1,a.wav,False\n2,b.flac,True\n",
        "id,clip,fake\n1,a.wav,0\n2,b.flac,1\n",
        "id,clip,is_bonafide\n1,a.wav,1\n2,b.flac,0\n",
        "x|y\na.wav|bona fide\nb.flac|TTS\n",
        '"what, where",who,y\na.wav,Ann,real\nb.flac,Bob,synthetic\n',
        "a.wav,real\nb.flac,cloned\n",
    ],
)
def test_paths_and_labels_are_found_by_name_or_content(tmp_path, text):
    trials = read(tmp_path, text)
    assert (trials.ids, trials.labels.tolist()) == (["a.wav", "b.flac"], [1, 0])


def test_other_columns_come_along_under_our_names(tmp_path):
    text = "file,spk_id,Generator,label,Note\na.wav,S1,none,real,x\nb.wav,S2,hifigan,fake,y  z\n"
    trials = read(tmp_path, text)
    assert trials.columns == {
        "speaker": ["S1", "S2"],
        "attack": ["-", "hifigan"],
        "note": ["x", "y z"],
    }


def test_of_paths_the_column_that_is_called_so_counts(tmp_path):
    text = "source_wav,path,kind\ns.wav,a.wav,real\nt.wav,b.wav,fake\n"
    trials = read(tmp_path, text)
    assert trials.ids == ["a.wav", "b.wav"]
    assert trials.columns["source_wav"] == ["s.wav", "t.wav"]


def test_named_columns_and_values_count(tmp_path):
    text = "one,two,y,z\na.wav,c.wav,7,real\nb.wav,d.wav,8,real\n"
    columns = Columns({"path": "two", "label": "y", "sex": "z"}, "8")
    trials = read(tmp_path, text, columns)
    assert (trials.ids, trials.labels.tolist()) == (["c.wav", "d.wav"], [0, 1])
    assert trials.columns == {"one": ["a.wav", "b.wav"], "sex": ["real", "real"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "clip,target\na.wav,1\nb.wav,0\n",
            r"target = '0', '1' may mean either class: .* '1' \(1\).*--bona-fide 1",
        ),
        (
            "clip,label\na.wav,real\nb.wav,melgan\nc.wav,melgan\n",
            r"label = 'melgan' means neither .*'melgan' \(2\), 'real' \(1\).*--bona-fide melgan",
        ),
        (
            "one,two,label\na.wav,b.wav,real\n",
            r"several columns hold recordings.*one \(a.wav\), two",
        ),
        ("clip,sex\na.wav,f\n", r"no column holds labels.*clip \(a.wav\), sex \(f\).*label=NAME"),
        ("clip,a,b\na.wav,real,fake\n", r"several columns may be the label \(a, b\)"),
        ("clip,label\na.wav,real,x\n", "line 2: it has 3 cells, but the first line has 2"),
        ("clip,label\n,real\nb.wav,fake\n", "line 2: the clip is empty"),
        ("clip,label\na.wav,real\na.wav,fake\n", "line 3: 'a.wav' is already in line 2"),
    ],
)
def test_what_may_mean_several_things_is_refused(tmp_path, text, message):
    with pytest.raises(AsdfError, match=message):
        read(tmp_path, text)


def test_a_wrong_name_of_a_column_or_value_is_refused(tmp_path):
    text = "clip,y\na.wav,7\nb.wav,8\n"
    with pytest.raises(AsdfError, match=r"no column 'z'.*clip \(a.wav\), y \(7\)"):
        read(tmp_path, text, Columns({"label": "z"}, "8"))
    with pytest.raises(
        AsdfError, match=r"y has no value 9, which was given as bona fide.*'7' \(1\)"
    ):
        read(tmp_path, text, Columns({"label": "y"}, "9"))


def test_our_own_csv_is_read_as_before(tmp_path):
    assert read(tmp_path, "path,label\na.wav,1\nb.wav,0\n").labels.tolist() == [1, 0]
    named = read(tmp_path, "path,label,spk\na.wav,1,S\nb.wav,0,T\n", Columns({"who": "spk"}))
    assert (named.labels.tolist(), named.columns) == ([1, 0], {"who": ["S", "T"]})
    assert read(tmp_path, "path,label\na.wav,human\nb.wav,cloned\n").labels.tolist() == [1, 0]


def test_words_of_the_classes():
    assert [label_of(word) for word in ("Bona-Fide", " REAL ", "deep_fake", "melgan", "1")] == [
        *(1, 1, 0, None, None)
    ]
    # A yes is the class that the column asks for.
    assert [meaning_of("is_real", word) for word in ("yes", "0", "fake")] == [1, 0, 0]
    assert [meaning_of("label", word) for word in ("yes", "0", "fake")] == [None, None, 0]
