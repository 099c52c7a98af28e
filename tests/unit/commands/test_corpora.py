"""`python -m asdf corpora`: what it says of the corpora, and of a checked one."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.corpora import KNOWN
from asdf.facts import Published
from asdf.trials.lists import read_list
from asdf.trials.table import read_trials
from tests.unit.commands.running import Runner

run = Runner("corpora")

AUDIO = "ASVspoof2021_LA_eval/flac"
KEYS = """LA_0009 LA_E_1 alaw ita_tx A07 spoof notrim eval
LA_0009 LA_E_2 none loc_tx bonafide bonafide notrim eval
LA_0010 LA_E_3 alaw ita_tx A08 spoof notrim eval
LA_0011 LA_E_4 gsm mad_tx bonafide bonafide trim hidden
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Four trials of 2021 LA, 1 to 4 s; the third has no recording, a fifth recording no trial."""
    (tmp_path / "keys/LA/CM").mkdir(parents=True)
    (tmp_path / "keys/LA/CM/trial_metadata.txt").write_text(KEYS, encoding="utf-8")
    (tmp_path / AUDIO).mkdir(parents=True)
    for number in (1, 2, 4, 5):
        soundfile.write(tmp_path / AUDIO / f"LA_E_{number}.flac", np.zeros(16000 * number), 16000)
    return tmp_path


def test_the_names_and_what_each_corpus_needs(capsys) -> None:
    out = run.ok(capsys)
    lines = out.split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(KNOWN)
    assert "eval 148,176 trials (14,816 bona fide), progress 16,464 trials, hidden 16,926" in out
    assert "everything 117,985 trials (0 bona fide), or any system of it" in out
    assert all(f"needs {corpus.needs}" in out for corpus in KNOWN.values())
    assert "\nasvspoof19-dev          asvspoof19:dev\n" in out


def test_all_that_is_known_of_one(capsys) -> None:
    out = run.ok(capsys, "asvspoof5")
    parts = "train 182,357 trials (18,797 bona fide), dev 140,950 trials (31,334 bona fide)"
    assert out.splitlines()[:3] == [
        "title        ASVspoof 5, track 1",
        f"subsets      {parts}, eval 680,774 trials (138,688 bona fide)",
        "published    numbers are of subset eval",
    ]
    assert "licence      ODC-By 1.0\n" in out


def test_a_corpus_with_a_recording_missing(capsys, corpus: Path) -> None:
    status, out, err = run(capsys, "asvspoof21-la:eval", corpus, "--durations")
    assert status == 1 and err == "asvspoof21-la:eval: reading ...\n"
    assert out.splitlines() == [
        "asvspoof21-la:eval",
        f"  folder       {corpus}",
        "  trials       3: 1 bona fide, 2 spoof",
        "  speaker      2 of them",
        "  codec        alaw 2, none 1",
        "  transmission ita_tx 2, loc_tx 1",
        "  attack       - 1, A07 1, A08 1",
        "  trim         notrim 3 (1 bona fide)",
        "  subset       eval 3 (1 bona fide)",
        "  durations    bona fide: 0.00 h, 2.00 s to 2.00 s, median 2.00 s",
        "  durations    spoof: 0.00 h, 1.00 s to 1.00 s, median 1.00 s",
        "  DIFFERENCE   asvspoof21-la:eval has 3 trials, published 148,176: "
        "14,815 bona fide missing, 133,358 spoof missing",
        "  MISSING      1 named and not on disk:",
        f"               {AUDIO}/LA_E_3.flac",
        "  not named    1 on disk and not named:",
        f"               {AUDIO}/LA_E_5.flac",
        "",
    ]


def test_a_corpus_that_is_whole(capsys, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wild = corpus / "release_in_the_wild"
    wild.mkdir()
    (wild / "meta.csv").write_text("file,speaker,label\n0.wav,A B,spoof\n", encoding="utf-8")
    (wild / "0.wav").touch()
    monkeypatch.setitem(KNOWN["in-the-wild"].published, "", Published(1, 0))
    status, out, _ = run(capsys, "in-the-wild", corpus)
    assert status == 0 and out.splitlines()[-2:] == ["  all there, as many trials as published", ""]


def test_every_subset_is_checked_where_none_is_named(capsys, corpus: Path) -> None:
    protocols = corpus / "ASVspoof5.train.tsv"
    protocols.write_text("T_1 T_2 F - - - AC3 A05 spoof -\n", encoding="utf-8")
    status, out, _ = run(capsys, "asvspoof5", corpus)
    assert status == 1 and out.count("NOT THERE") == 2
    assert "asvspoof5:train\n" in out
    assert f"asvspoof5:dev\n  NOT THERE    {corpus}: there is no ASVspoof5.dev" in out
    status, out, _ = run(capsys, "asvspoof21-la", corpus)
    assert status == 1 and out.startswith("asvspoof21-la:all\n")
    assert "subset       eval 3 (1 bona fide), hidden 1" in out
    assert "note         these are all trials, of eval, progress and hidden" in out


def test_its_list_and_its_table_are_read_back(capsys, corpus: Path, tmp_path: Path) -> None:
    listed, table = tmp_path / "out" / "la.txt", tmp_path / "out" / "la.tsv"
    run(capsys, "asvspoof21-la:eval", corpus, "--list", listed, "--trials", table)
    rows = [f"{AUDIO}/LA_E_{number}.flac {label}\n" for number, label in ((1, 0), (2, 1), (3, 0))]
    assert listed.read_text() == "".join(rows)
    assert read_list(listed, corpus).ids == list(read_trials(table).ids)
    assert read_trials(table).columns["attack"] == ["A07", "-", "A08"]


def test_a_list_of_ones_own(capsys, corpus: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text(f"{AUDIO}/LA_E_1.flac 0\n{AUDIO}/LA_E_2.flac 1\n", encoding="utf-8")
    status, out, _ = run(capsys, own, corpus)
    assert status == 0 and "trials       2: 1 bona fide, 1 spoof" in out
    assert "not named    2 on disk" in out
    # A format that no corpus here comes in.
    soundfile.write(tmp_path / "a.caf", np.zeros(100), 16000)
    own.write_text("a.caf 0\n", encoding="utf-8")
    status, out, _ = run(capsys, own, corpus)
    assert status == 0 and "all there" in out
    own.write_text("gone.flac 0\n", encoding="utf-8")
    assert run(capsys, own, corpus)[0] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["asvspoof21"], 2, "there is no corpus 'asvspoof21'. Did you mean"),
        (["asvspoof21-la:evl", "."], 2, "no subset 'evl'. Did you mean asvspoof21-la:eval?"),
        (["mlaad", "--durations"], 2, "Use: python -m asdf corpora NAME FOLDER"),
        (["asvspoof5", ".", "--list", "x"], 2, "a single subset. Give one of asvspoof5:train, "),
        (["asvspoof5:train", "nowhere"], 1, "error: there is no folder nowhere"),
    ],
)
def test_a_mistake(capsys, tmp_path, monkeypatch, arguments, status, message) -> None:
    monkeypatch.chdir(tmp_path)
    result, out, err = run(capsys, *arguments)
    assert (result, out) == (status, "") and message in err
