"""Tables of recordings under any header: which columns are found, and what is refused."""

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
    columns = {"speaker": ["S1", "S2"], "attack": ["-", "hifigan"], "note": ["x", "y z"]}
    assert trials.columns == columns


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
            r"target = '0', '1' may mean .*'1' \(1\).*--bona-fide 1",
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
    with pytest.raises(AsdfError, match=r"y has no value 9, which was given as .*'7' \(1\)"):
        read(tmp_path, text, Columns({"label": "y"}, "9"))


def test_our_own_csv_is_read_as_before(tmp_path):
    assert read(tmp_path, "path,label\na.wav,1\nb.wav,0\n").labels.tolist() == [1, 0]
    named = read(tmp_path, "path,label,spk\na.wav,1,S\nb.wav,0,T\n", Columns({"who": "spk"}))
    assert (named.labels.tolist(), named.columns) == ([1, 0], {"who": ["S", "T"]})
    assert read(tmp_path, "path,label\na.wav,human\nb.wav,cloned\n").labels.tolist() == [1, 0]


def test_words_of_the_classes():
    words = ("Bona-Fide", " REAL ", "deep_fake", "melgan", "1")
    assert list(map(label_of, words)) == [1, 1, 0, None, None]
    # A yes is the class that the column asks for.
    assert [meaning_of("is_real", word) for word in ("yes", "0", "fake")] == [1, 0, 0]
    assert [meaning_of("label", word) for word in ("yes", "0", "fake")] == [None, None, 0]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("path,label,start,end\na.wav,real,0.5,1.50\na.wav,fake,1.5,2\n", ("t=0.5,1.5", "t=1.5,2")),
        ("utterance\tlabel\tbegin\tstop\na.wav\t1\t0\t1\na.wav\t0\t1\t1e1\n", ("t=0,1", "t=1,10")),
        ("wav;y;offset;duration\na.wav;real;0.5;1.25\na.wav;fake;0;2\n", ("t=0.5,1.75", "t=0,2")),
        ("wav|y|onset_s|offset_s\na.wav|real|0|1\na.wav|fake|1|2\n", ("t=0,1", "t=1,2")),
        ("clip,y,Start (sec),End (sec)\na.wav,real,0,1\na.wav,fake,1,2\n", ("t=0,1", "t=1,2")),
        ("clip,y,seg_start,endTime\na.wav,real,0,1\na.wav,fake,1,2\n", ("t=0,1", "t=1,2")),
        ("clip,y,start,end,duration\na.wav,real,0,1,60\na.wav,fake,1,2,60\n", ("t=0,1", "t=1,2")),
        ("path,label,channel\na.wav,real,0\na.wav,fake,1\n", ("channel=0", "channel=1")),
        # pandas writes numbers so if one is missing.
        ("path,y,ch\na.wav,real,0.0\na.wav,fake,1.0\nb.wav,fake,\n", ("channel=0", "channel=1")),
        (
            "path,label,channel,start,end\na.wav,real,1,0,1\na.wav,fake,0,0,1\n",
            ("t=0,1&channel=1", "t=0,1&channel=0"),
        ),
    ],
)
def test_columns_of_times_and_channels_name_parts(tmp_path, text, ids):
    trials = read(tmp_path, text)
    assert trials.ids[:2] == [f"a.wav#{part}" for part in ids]
    assert trials.ids[2:] in ([], ["b.wav"]) and trials.labels.tolist()[:2] == [1, 0]
    assert set(trials.columns) <= {"duration"}


def test_a_part_in_a_path_is_kept_and_an_empty_cell_means_all(tmp_path):
    text = "path;label;start;end\na.wav#t=0.2,1;real;5;6\nb.wav;fake;;\nc.wav;fake;-;nan\n"
    assert read(tmp_path, text.replace(";", "\t")).ids == ["a.wav#t=0.2,1", "b.wav", "c.wav"]


@pytest.mark.parametrize(
    ("columns", "cells"),
    [
        ("start,end", "00:01,00:02"),
        ("start,end", "2,1"),
        ("start,end", "-1,1"),
        ("start,end", "0,inf"),
        ("start,end", "0,"),
        ("start_sample,end_sample", "0,16000"),
        ("begin_ms,duration_ms", "0,900"),
        ("start", "1.5"),
        ("end", "1.5"),
        ("onset,speaker", "1.5,S"),
        ("channel", "1"),
        ("channel", "L"),
        ("channel,codec", "-1,opus"),
    ],
)
def test_parts_that_are_unclear_are_refused_with_the_way_to_write_them(tmp_path, columns, cells):
    other = "0,opus" if "codec" in columns else cells
    text = f"path,label,{columns}\nb.wav,real,{other}\na.wav,fake,{cells}\n"
    with pytest.raises(AsdfError) as caught:
        read(tmp_path, text)
    name, cell = columns.partition(",")[0], cells.partition(",")[0].lower()
    assert f"{name} = {cell!r}" in str(caught.value)
    assert "Write it as " in str(caught.value) and ".wav#t=1.5,4 or " in str(caught.value)


def test_other_columns_of_such_names_stay_conditions(tmp_path):
    """A length of the whole, an offset of the waveform, a kind of channel, and times of fakes."""
    text = (
        "path,label,duration,offset,channel,fake_start,fake_end\n"
        "a.wav,real,,0.02,telephone,,\nb.wav,fake,,0,wideband,1,2\n"
    )
    for columns in ("duration", "offset"):
        trials = read(tmp_path, text.replace(f",{columns},", f",{columns}_of_it,"))
        assert trials.ids == ["a.wav", "b.wav"]
    assert trials.columns["channel"] == ["telephone", "wideband"]
    assert trials.columns["fake_end"] == ["", "2"]
    lengths = read(tmp_path, "path,label,duration\na.wav,real,2.5\nb.wav,fake,3\n")
    assert (lengths.ids, lengths.columns["duration"]) == (["a.wav", "b.wav"], ["2.5", "3"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path,label,is_fake\na.wav,real,0\nb.wav,fake,0\n", "line 3: is_fake = '0', but the lab"),
        ("path,label,key\na.wav,1,spoof\n", "line 2: key = 'spoof', but the label is bona fide"),
        ("file_name,label,Real\na.wav,0,yes\n", "line 2: real = 'yes', but the label is spoof"),
        ("file_name,label,truth\na.wav,spoof,human\n", "line 2: truth = 'human', but the label is"),
        ("utterance\tlabel\tis_fake\na.wav\t1\t1\n", "line 2: is_fake = '1', but the label"),
        ("path,label,label\na.wav,real,fake\n", "line 1: 2 columns are called 'label'"),
    ],
)
def test_contradicting_labels_are_refused(tmp_path, text, said):
    with pytest.raises(AsdfError, match=said):
        read(tmp_path, text)
    agreeing = "path,label,is_fake,key\na.wav,real,0,k1\nb.wav,fake,1,k2\n"
    assert read(tmp_path, agreeing).labels.tolist() == [1, 0]


def test_a_named_column_of_labels_has_its_own_meaning(tmp_path):
    """In our own csv 1 is bona fide, but only in the column label."""
    text = "path,label,is_fake\na.wav,0,0\nb.wav,1,1\n"
    assert read(tmp_path, text, Columns({"label": "is_fake"})).labels.tolist() == [1, 0]
    assert read(tmp_path, text, Columns({"label": "label"})).labels.tolist() == [0, 1]
