"""Names of corpora: one name means one list or a part of it; what they share is spoken of."""

from collections import Counter

import numpy as np
import pytest

from asdf.corpora import (
    KNOWN,
    choose,
    describe_origin,
    describe_overlaps,
    differences,
    find_tree,
    known_names,
    parse_part,
    sharing,
)
from asdf.corpora.registry import StatedPart
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.trials.trial_list import TrialList

NAMES = """\
asvspoof19 asvspoof19:train, asvspoof19-dev asvspoof19:dev, asvspoof19-eval asvspoof19:eval,
asvspoof21-la-progress asvspoof21-la:progress, asvspoof21-la-eval asvspoof21-la:eval,
asvspoof21-df-progress asvspoof21-df:progress, asvspoof21-df-eval asvspoof21-df:eval,
asvspoof21-df:hidden asvspoof21-df:hidden, in-the-wild in-the-wild, itw in-the-wild,
for for:training, for-validation for:validation, for-testing for:testing, mlaad mlaad,
mlaad:de mlaad:de, wavefake:jsut_parallel_wavegan wavefake:jsut_parallel_wavegan"""


@pytest.mark.parametrize("pair", NAMES.split(","))
def test_what_a_name_means(pair):
    name, full = pair.split()
    assert choose(name).name == full


def test_every_name_that_is_hinted_at_is_one():
    assert len(known_names()) == len(set(known_names()))
    assert all(choose(name).corpus in KNOWN.values() for name in known_names())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "asvspoof5:evl",
            "asvspoof5 has no subset 'evl'. Did you mean asvspoof5:eval? There are "
            "asvspoof5:train, asvspoof5:dev, asvspoof5:eval; published numbers are of "
            "asvspoof5:eval.",
        ),
        (
            "for-2sec",
            "for-2sec has subsets, but 'for-2sec' names none. There are for-2sec:training, "
            "for-2sec:validation, for-2sec:testing; published numbers are of for-2sec:testing.",
        ),
        ("in-the-wild:eval", "in-the-wild has no subsets: name it without ':eval'."),
        ("mlaad:de/x", "'mlaad:de/x': a language must be the name of one folder, without"),
        ("wavefake:..", "'wavefake:..': a system must be the name of one folder, without"),
        ("itv", "there is no corpus 'itv'. Did you mean 'itw'?"),
        ("asvspoof21-la-evl", "no corpus 'asvspoof21-la-evl'. Did you mean 'asvspoof21-la-eval'?"),
        ("AT-ADD", "there is no corpus 'AT-ADD'. Did you mean 'at-add-track1' or 'at-add-track2'?"),
    ],
)
def test_a_mistake_in_a_name_is_answered_with_known_names(name, message):
    with pytest.raises(UsageError) as caught:
        choose(name)
    assert message in str(caught.value)


def test_a_corpus_is_looked_for_in_the_folders_that_it_may_have(lay):
    base = lay(
        empty="In-the-Wild/release_in_the_wild/meta.csv\nMLAAD/fake/de/x/a.wav\n"
        "ASVspoof5/protocols/p.tsv"
    )
    assert find_tree(KNOWN["in-the-wild"], base).root == base / "In-the-Wild"
    assert find_tree(KNOWN["mlaad"], base).root == base / "MLAAD"
    assert find_tree(KNOWN["mlaad"], base / "MLAAD", itself=True).root == base / "MLAAD"
    with pytest.raises(AsdfError) as caught:
        find_tree(KNOWN["asvspoof5"], base)
    message = str(caught.value)
    needs = "it needs ASVspoof5_protocols.tar.gz and"
    assert message.startswith(f"ASVspoof 5, track 1 is not in {base}: {needs}")
    assert f"Looked in {base / 'ASVspoof5'}, " in message
    assert "https://zenodo.org/records/14498691" in message
    with pytest.raises(AsdfError, match="there is no folder"):
        find_tree(KNOWN["mlaad"], base / "none")


@pytest.mark.parametrize(
    ("name", "mark", "folder"),
    [
        ("for", "for-norm/testing/real/a.wav", "for-norm"),
        ("asvspoof21-la", "ASVspoof2021_LA_eval/flac/LA_E_1.flac", "ASVspoof2021_LA_eval"),
        ("spoofceleb", "metadata/train.csv", "metadata"),
    ],
)
def test_a_folder_that_a_corpus_is_recognised_by_stands_for_it(lay, name, mark, folder):
    base = lay(empty=mark)
    assert find_tree(KNOWN[name], base / folder, itself=True).root == base
    with pytest.raises(AsdfError, match="is not in"):
        find_tree(KNOWN[name], base / folder)


def test_one_system_or_language_does_not_stand_for_all(lay):
    base = lay(empty="ljspeech_melgan/a.wav\nen_US/by_book/female/x/y/wavs/a.wav")
    for name, folder in (("wavefake", "ljspeech_melgan"), ("m-ailabs", "en_US")):
        with pytest.raises(AsdfError, match="is not in"):
            find_tree(KNOWN[name], base / folder, itself=True)


def labels(bona_fide: int, spoof: int) -> np.ndarray:
    return np.repeat(np.array([1, 0], np.int8), [bona_fide, spoof])


@pytest.mark.parametrize(
    ("name", "counts", "sentence"),
    [
        ("asvspoof19-eval", (7355, 63882), ""),
        ("asvspoof19-eval", (7354, 63882), "71,236 trials, published 71,237: 1 bona fide missing"),
        (
            "asvspoof19:dev",
            (2549, 22295),
            "24,844 trials, published 24,844: 1 bona fide too many, 1 spoof missing",
        ),
        ("asvspoof21-la:eval", (14816, 133360), ""),
        ("asvspoof21-la:progress", (1000, 15000), "16,000 trials, published 16,464: 464 missing"),
        ("in-the-wild", (19963, 11816), ""),
        ("mlaad", (0, 5), ""),
        ("wavefake:jsut_parallel_wavegan", (0, 5), ""),
    ],
)
def test_a_difference_to_the_published_numbers_is_named(name, counts, sentence):
    chosen = choose(name)
    expected = [f"{chosen.name} has {sentence}"] if sentence else []
    assert differences(chosen, labels(*counts)) == expected


@pytest.mark.parametrize("key", ["asvspoof21-la", "asvspoof21-df"])
def test_the_subsets_of_2021_are_all_of_it(key):
    published = KNOWN[key].published
    parts = [published[subset].trials for subset in ("eval", "progress", "hidden")]
    assert sum(parts) == published["all"].trials


ATTACKS = ["-"] * 200 + ["A"] * 600 + ["B"] * 100 + ["C"] * 3
TRIALS = TrialList(
    [f"{index}.wav" for index in range(903)],
    np.array([1] * 200 + [0] * 703),
    columns={"attack": ATTACKS},
    name="x",
)


def test_each_class_and_attack_keeps_its_share():
    part = StatedPart(0.1).of(TRIALS)
    assert Counter(part.columns["attack"]) == {"-": 20, "A": 60, "B": 10, "C": 1}
    assert part.labels.sum() == 20 and part.name == "x"
    # In the order of the list.
    assert [int(name[:-4]) for name in part.ids] == sorted(int(name[:-4]) for name in part.ids)
    assert len(StatedPart(301.0).of(TRIALS)) == 67 + 200 + 33 + 1


def test_the_seed_decides_and_smaller_parts_lie_in_larger_ones():
    small, large = StatedPart(0.1, 3).of(TRIALS), StatedPart(0.3, 3).of(TRIALS)
    assert set(small.ids) < set(large.ids)
    assert set(small.ids) != set(StatedPart(0.1, 4).of(TRIALS).ids)
    # The order of the list does not matter.
    turned = TRIALS.select(np.arange(903)[::-1])
    assert set(StatedPart(0.1, 3).of(turned).ids) == set(small.ids)


def test_names():
    assert parse_part("asvspoof19") == ("asvspoof19", None)
    assert parse_part("asvspoof19~0.1") == ("asvspoof19", StatedPart(0.1))
    assert parse_part("mlaad:de~2000~7") == ("mlaad:de", StatedPart(2000.0, 7))
    for name in ("x~", "x~0", "x~1.5", "x~-1", "x~a", "~0.1", "x~0.1~"):
        with pytest.raises(UsageError, match="state a share of the corpus"):
            parse_part(name)
    with pytest.raises(UsageError, match="2000 trials were requested of 903"):
        StatedPart(2000.0).of(TRIALS)


def test_a_recipe_knows_parts_of_all_its_corpora(tmp_path):
    lines = [f"{index}.wav {index % 2}\n" for index in range(20)]
    (tmp_path / "train.txt").write_text("".join(lines))
    corpora = {"mine": Corpus("train.txt")}
    corpus = find_corpus("mine~0.5", corpora)
    utterances, notes = corpus.read_with_notes("mine~0.5", tmp_path)
    assert utterances.labels.tolist().count(1) == 5 and len(utterances) == 10
    assert utterances.name == "mine~0.5"
    assert notes == ["mine~0.5: 10 of 20 utterances, as its name says"]
    assert find_corpus("asvspoof19~0.1", {}).part == StatedPart(0.1)
    assert set_parts("mine~0.5+mlaad~100", corpora) == ["mine~0.5", "mlaad~100"]
    # A corpus that is called so hides the part.
    corpora["mine~0.5"] = Corpus("other.txt")
    assert find_corpus("mine~0.5", corpora).list == "other.txt"


def overlaps(trained: str, scored: str) -> list[str]:
    return describe_overlaps([choose(trained)], [choose(scored)])


@pytest.mark.parametrize(
    ("trained", "scored", "part"),
    [
        ("asvspoof19:eval", "asvspoof21-la:eval", "the attacks of 2019 LA eval (A07 to A19)"),
        ("asvspoof19-eval", "arena:ASVspoof2021_DF", "the part 'asvspoof' of 2021 DF is from 2019"),
        ("asvspoof19", "dfadd:test", "both have speech of VCTK (according to the table of sources"),
        ("codecfake-xie:train", "librisevoc", "both have speech of LibriSpeech"),
        ("librisevoc", "diffssd:test", "both have speech of LibriSpeech"),
        ("wavefake", "for-2sec:testing", "both have speech of LJSpeech"),
        ("wavefake", "decro:en_eval", "DECRO has spoofs of WaveFake"),
        ("m-ailabs", "mlaad:de", "both have speech of M-AILABS"),
        ("cfad:clean-train", "add23:test-r2", "both have speech of AISHELL-3"),
        ("asvspoof19", "partial-spoof:train", "PartialSpoof is made of the recordings of ASVsp"),
        ("asvspoof5:eval", "arena:ASVspoof5", "is trained on as asvspoof5:eval: its results are"),
        ("asvspoof19:eval", "asvspoof19-eval", "is trained on as asvspoof19:eval"),
    ],
)
def test_what_is_shared(trained, scored, part):
    (sentence,) = overlaps(trained, scored)
    assert part in sentence and choose(scored).name in sentence


@pytest.mark.parametrize(
    ("trained", "scored"),
    [
        ("asvspoof19", "asvspoof19-eval"),
        ("asvspoof19", "asvspoof21-la:eval"),
        ("asvspoof19-dev", "asvspoof21-df:eval"),
        ("asvspoof19", "partial-spoof:eval"),
        ("asvspoof19-pa:train", "asvspoof21-pa:eval"),
        ("asvspoof19", "in-the-wild"),
        ("asvspoof19", "asvspoof5:eval"),
        ("asvspoof5:train", "asvspoof5:eval"),
        ("parquet", "parquet"),
    ],
)
def test_what_is_apart_or_not_known(trained, scored):
    assert overlaps(trained, scored) == []


def test_a_corpus_and_those_that_share_its_speech():
    assert describe_origin("for-rerec") == "LJSpeech (according to the corpus's paper)"
    assert describe_origin("sonar") == ""
    assert sharing("m-ailabs") == ["mlaad"]
    others = "decro diffssd for for-2sec for-original for-rerec ljspeech"
    assert sharing("wavefake") == others.split()
