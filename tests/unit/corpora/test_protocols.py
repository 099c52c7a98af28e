"""Label files are known by what stands in them, and all give the same kind of trials."""

import gzip

import pytest

from asdf.corpora import choose, find_tree, read_known, read_protocol
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError, UsageError
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import move_into_tar

LA19 = "LA_0079 LA_T_1 - - bonafide\nLA_0080 LA_T_2 - A01 spoof\n"
LA21 = """LA_0009 LA_E_1 alaw ita_tx A07 spoof notrim eval
LA_0010 LA_E_2 none loc_tx bonafide bonafide notrim progress
LA_0011 LA_E_3 gsm mad_tx - bonafide trim hidden
"""
DF21 = """LA_0023 DF_E_1 nocodec asvspoof A14 spoof notrim progress traditional_vocoder - - - -
TEF2 DF_E_2 low_m4a vcc2020 Task1-team20 spoof notrim eval neural_vocoder_nonautoregressive \
Task1 team20 FF E
LA_0024 DF_E_3 mp3m4a asvspoof - bonafide notrim eval bonafide - - - -
"""
ASVSPOOF5 = """D_4461 D_1 F - - - AC1 A14 spoof -
D_0461 D_2 M - - - - bonafide bonafide -
E_1607 E_3 M C05 2 E_0009486171 AC1 A26 spoof -
"""
WILD = 'file,speaker,label\n0.wav,Alec Guinness,spoof\n1.wav,"Guinness, Alec",bona-fide\n'
CELEB = "file,speaker,attack\na00/id10318/Y-1.flac,id10318,a00\na06/id10318/Y-1.flac,id10318,a06\n"
LIST = "my folder/a b.flac 1\nc.flac 0\n"
TABLE = "utterance\tlabel\tattack\tcodec\na.flac\t1\t-\t\nb.flac\t0\tA01\topus\n"


@pytest.mark.parametrize(
    ("text", "ids", "labels"),
    [
        (LA19, "LA_T_1 LA_T_2", [1, 0]),
        ("PA_0079 PA_T_1 aaa - bonafide\nPA_0079 PA_T_2 aac BB spoof\n", "PA_T_1 PA_T_2", [1, 0]),
        (LA21, "LA_E_1 LA_E_2 LA_E_3", [0, 1, 1]),
        (DF21, "DF_E_1 DF_E_2 DF_E_3", [0, 0, 1]),
        (ASVSPOOF5, "D_1 D_2 E_3", [0, 1, 0]),
        (CELEB, "a00/id10318/Y-1.flac a06/id10318/Y-1.flac", [1, 0]),
        ("utt_1 bonafide\nutt_2 spoof\n", "utt_1 utt_2", [1, 0]),
        ("utt_1\tbona-fide\nutt_2\tspoof\n", "utt_1 utt_2", [1, 0]),
        ("utt_1 1\r\n\r\nutt_2 0\r\n", "utt_1 utt_2", [1, 0]),
    ],
    ids=["2019-LA", "2019-PA", "2021-LA", "2021-DF", "5", "SpoofCeleb", "two", "tab", "windows"],
)
def test_every_format(tmp_path, text, ids, labels):
    """The columns of most are those that their corpora have in test_distributions.py."""
    (tmp_path / "labels").write_text(text, encoding="utf-8", newline="")
    trials = read_protocol(tmp_path / "labels")
    assert list(trials.ids) == ids.split() and trials.labels.tolist() == labels


def test_the_columns_of_2021_df(tmp_path):
    (tmp_path / "labels").write_text(DF21, encoding="utf-8")
    columns = read_protocol(tmp_path / "labels").columns
    names = "speaker compression source attack trim subset vocoder task team gender language"
    assert list(columns) == names.split()
    assert [" ".join(row) for row in zip(*columns.values(), strict=True)] == [
        "LA_0023 nocodec asvspoof A14 notrim progress traditional_vocoder - - - -",
        "TEF2 low_m4a vcc2020 Task1-team20 notrim eval neural_vocoder_nonautoregressive Task1 "
        "team20 FF E",
        "LA_0024 mp3m4a asvspoof - notrim eval - - - - -",
    ]


def test_names_with_spaces_and_commas(tmp_path):
    (tmp_path / "meta.csv").write_text(WILD, encoding="utf-8")
    wild = read_protocol(tmp_path / "meta.csv")
    assert wild.ids == ["0.wav", "1.wav"] and wild.labels.tolist() == [0, 1]
    assert wild.columns == {"speaker": ["Alec Guinness", "Guinness, Alec"]}
    (tmp_path / "list.txt").write_text(LIST, encoding="utf-8")
    assert read_protocol(str(tmp_path / "list.txt")).ids == ["my folder/a b.flac", "c.flac"]


def test_a_table_of_trials_keeps_its_columns(tmp_path):
    (tmp_path / "t.tsv").write_text(TABLE, encoding="utf-8")
    trials = read_protocol(tmp_path / "t.tsv")
    assert trials.ids == ["a.flac", "b.flac"]
    assert trials.columns == {"attack": ["-", "A01"], "codec": ["", "opus"]}


@pytest.mark.parametrize("text", [LA21, WILD, TABLE], ids=["columns", "csv", "table"])
def test_gzip_and_a_byte_order_mark_change_nothing(tmp_path, text):
    (tmp_path / "plain").write_text(text, encoding="utf-8")
    (tmp_path / "other").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    plain, other = read_protocol(tmp_path / "plain"), read_protocol(tmp_path / "other")
    assert other.ids == plain.ids and other.columns == plain.columns
    assert other.labels.tolist() == plain.labels.tolist()


def test_one_subset(tmp_path):
    (tmp_path / "trial_metadata.txt").write_text(DF21, encoding="utf-8")
    chosen = read_protocol(tmp_path / "trial_metadata.txt", "eval")
    assert chosen.ids == ["DF_E_2", "DF_E_3"] and chosen.labels.tolist() == [0, 1]
    assert chosen.columns["subset"] == ["eval", "eval"]
    assert chosen.columns["attack"] == ["Task1-team20", "-"]
    with pytest.raises(UsageError, match=r"subset 'evl'\. Its subsets are eval, progress\."):
        read_protocol(tmp_path / "trial_metadata.txt", "evl")
    (tmp_path / "protocol").write_text(LA19, encoding="utf-8")
    with pytest.raises(UsageError, match="It has no column of subsets"):
        read_protocol(tmp_path / "protocol", "eval")


TWO_COLUMNS = "expected 'UTTERANCE KEY', KEY being bonafide or spoof"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no trials found"),
        ("LA_E_1\nLA_E_2\n", f"line 1: {TWO_COLUMNS}, found 'LA_E_1'. It should"),
        ("a b c\n", f"line 1: {TWO_COLUMNS}, found 'a b c'. It should be a pro"),
        (
            f"{LA19}LA_0080 LA_T_3 - A01 fake\n",
            "line 3: expected 'SPEAKER UTTERANCE ENVIRONMENT ATT",
        ),
        (
            f"{LA21}LA_0009 LA_E_4 alaw ita_tx A07 spoof\n",
            "line 4: expected 'SPEAKER UTTERANCE CODEC",
        ),
        (
            LA21 + "\n" + LA21.split("\n")[1],
            "line 5: 'LA_E_2' is already in line 2 (1 line repeats an utterance).",
        ),
        ("a.flac 1\nb.flac 2\n", "line 2: expected 'UTTERANCE KEY'"),
        (
            f"{WILD}2.wav,Someone,real\n",
            "line 4: expected file,speaker,label, found '2.wav,Someone,",
        ),
        (f"{WILD}2.wav,spoof\n", "line 4: expected file,speaker,label"),
        ("file,speaker\na.wav,b\n", "line 1: a csv with a column 'file' also needs 'label'"),
    ],
)
def test_what_does_not_fit_is_named_with_file_and_line(tmp_path, text, message):
    (tmp_path / "labels").write_text(text, encoding="utf-8")
    with pytest.raises(AsdfError) as caught:
        read_protocol(tmp_path / "labels")
    assert str(caught.value).startswith(str(tmp_path / "labels")) and message in str(caught.value)


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(AsdfError, match=r"cannot read .*none"):
        read_protocol(tmp_path / "none")


def test_a_field_without_end(tmp_path):
    """The csv module raises an error of its own for more than 131,072 characters."""
    path = tmp_path / "meta.csv"
    path.write_text(f"file,speaker,label\na.wav,S,spoof\n{'b' * 200_000},S,spoof\n")
    with pytest.raises(AsdfError, match=r"meta\.csv, line 3: the line has more than 100,000 char"):
        read_protocol(path)


def test_the_csv_of_at_add(tmp_path):
    path = tmp_path / "dev.csv"
    path.write_text("name,label,type\na.wav,real,speech\nb.wav,fake,music\n")
    trials = read_protocol(path)
    assert (list(trials.ids), trials.labels.tolist()) == (["a.wav", "b.wav"], [1, 0])
    assert dict(trials.columns) == {"type": ["speech", "music"]}


PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"
FLAC19 = "LA/ASVspoof2019_LA_train/flac"


@pytest.mark.parametrize(
    ("name", "file"), [("asvspoof19-dev", "dev.trl"), ("asvspoof19:eval", "eval.trl")]
)
def test_the_other_sets_of_2019(lay, read, name, file):
    subset = file.split(".")[0]
    root = lay({f"{PROTOCOLS}.{file}.txt": LA19})
    assert read(name, root)[0].ids[0] == f"LA/ASVspoof2019_LA_{subset}/flac/LA_T_1.flac"
    with pytest.raises(AsdfError, match=r"there is no .*ASVspoof2019\.LA\.cm\.train\.trn\.txt"):
        read("asvspoof19", root)


def test_suffixes_in_capitals_are_found_and_foreign_files_are_not(lay, read):
    root = lay(
        {f"{PROTOCOLS}.train.trn.txt": LA19},
        f"{FLAC19}/LA_T_1.FLAC\n{FLAC19}/._LA_T_1.FLAC\n{FLAC19}/LA_T_2.txt\n{FLAC19}/.LA_T_2.flac",
    )
    utterances, _ = read("asvspoof19", root)
    assert utterances.ids == [f"{FLAC19}/LA_T_1.FLAC", f"{FLAC19}/LA_T_2.flac"]
    with pytest.raises(
        AsdfError, match=r"1 of the 2 files of asvspoof19:train are not in .*\n.*LA_T_2\.flac"
    ):
        check_files([utterances])


def test_a_tar_of_it_next_to_other_corpora_has_the_same_ids(lay, tmp_path):
    names = [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.flac"]
    folder = lay({f"{PROTOCOLS}.train.trn.txt": LA19}, "\n".join(names), folder="base/LA-source")
    move_into_tar(folder / "LA", tmp_path / "base" / "LA.tar", "LA")
    chosen = choose("asvspoof19")
    packed, _ = read_known(chosen, find_tree(chosen.corpus, tmp_path / "base"))
    assert packed.ids == names
    check_files([packed])


def test_a_tar_of_the_audio_next_to_unpacked_protocols(lay, read):
    root = lay({f"{PROTOCOLS}.train.trn.txt": LA19}, f"{FLAC19}/LA_T_1.flac\n{FLAC19}/LA_T_2.FLAC")
    move_into_tar(
        root / "LA/ASVspoof2019_LA_train",
        root / "LA/ASVspoof2019_LA_train.tar",
        "ASVspoof2019_LA_train",
    )
    utterances, reading = read("asvspoof19", root)
    assert utterances.ids == [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.FLAC"]
    assert compare_with_disk(reading, open_tree(root)) == ([], [])
    check_files([utterances])


@pytest.mark.parametrize("outer", ["DS_10283_3336", "DS_10283_3336/LA"])
def test_2019_as_its_archive_of_archives_unpacks(lay, outer):
    root = lay({f"{outer}/{PROTOCOLS}.train.trn.txt": LA19})
    assert find_tree(choose("asvspoof19").corpus, root).root == root / outer
