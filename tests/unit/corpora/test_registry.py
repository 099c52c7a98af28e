"""Names of corpora: one name means one list, and a list that is no whole is spoken of."""

from __future__ import annotations

import numpy as np
import pytest

from asdf.corpora import KNOWN, choose, differences, find_tree, known_names
from asdf.errors import AsdfError, UsageError


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("asvspoof19", "asvspoof19:train"),
        ("asvspoof19-dev", "asvspoof19:dev"),
        ("asvspoof19-eval", "asvspoof19:eval"),
        ("asvspoof21-df:hidden", "asvspoof21-df:hidden"),
        ("in-the-wild", "in-the-wild"),
        ("asvspoof21-la-progress", "asvspoof21-la:progress"),
        ("asvspoof21-la-eval", "asvspoof21-la:eval"),
        ("asvspoof21-df-progress", "asvspoof21-df:progress"),
        ("asvspoof21-df-eval", "asvspoof21-df:eval"),
        ("itw", "in-the-wild"),
        ("for", "for:training"),
        ("for-validation", "for:validation"),
        ("for-testing", "for:testing"),
        ("mlaad", "mlaad"),
        ("mlaad:de", "mlaad:de"),
        ("wavefake:jsut_parallel_wavegan", "wavefake:jsut_parallel_wavegan"),
    ],
)
def test_what_a_name_means(name, full):
    assert choose(name).name == full


def test_every_name_that_is_hinted_at_is_one():
    assert len(known_names()) == len(set(known_names()))
    assert all(choose(name).corpus in KNOWN.values() for name in known_names())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "asvspoof21-la",
            "asvspoof21-la has subsets, but 'asvspoof21-la' names none. There are "
            "asvspoof21-la:eval, asvspoof21-la:progress, asvspoof21-la:hidden, "
            "asvspoof21-la:all; published numbers are of asvspoof21-la:eval.",
        ),
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
        (
            "mlaad:de/x",
            "'mlaad:de/x': a language must be the name of one folder, without '/' or a leading "
            "'.'.",
        ),
        (
            "wavefake:..",
            "'wavefake:..': a system must be the name of one folder, without '/' or a leading '.'.",
        ),
        ("itv", "there is no corpus 'itv'. Did you mean 'itw'?"),
        (
            "asvspoof21-la-evl",
            "there is no corpus 'asvspoof21-la-evl'. Did you mean 'asvspoof21-la-eval'?",
        ),
        ("wave-fake", "there is no corpus 'wave-fake'. Did you mean 'wavefake'?"),
        ("AT-ADD", "there is no corpus 'AT-ADD'. Did you mean 'at-add-track1' or 'at-add-track2'?"),
    ],
)
def test_a_mistake_in_a_name_is_answered_with_known_names(name, message):
    with pytest.raises(UsageError) as caught:
        choose(name)
    assert str(caught.value) == message


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
    assert message.startswith(
        f"ASVspoof 5, track 1 is not in {base}: it needs ASVspoof5_protocols.tar.gz and"
    )
    assert (
        f"Looked in {base / 'ASVspoof5'}, " in message
        and "https://zenodo.org/records/14498691" in message
    )
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
    ("name", "counts", "sentences"),
    [
        ("asvspoof19-eval", (7355, 63882), []),
        (
            "asvspoof19-eval",
            (7354, 63882),
            ["asvspoof19:eval has 71,236 trials, published 71,237: 1 bona fide missing"],
        ),
        (
            "asvspoof19:dev",
            (2549, 22295),
            [
                "asvspoof19:dev has 24,844 trials, published 24,844: 1 bona fide too many, 1 "
                "spoof missing"
            ],
        ),
        ("asvspoof21-la:eval", (14816, 133360), []),
        (
            "asvspoof21-la:eval",
            (14800, 133360),
            ["asvspoof21-la:eval has 148,160 trials, published 148,176: 16 bona fide missing"],
        ),
        (
            "asvspoof21-la:progress",
            (1000, 15000),
            ["asvspoof21-la:progress has 16,000 trials, published 16,464: 464 missing"],
        ),
        ("in-the-wild", (19963, 11816), []),
        ("mlaad", (0, 5), []),
        ("wavefake:jsut_parallel_wavegan", (0, 5), []),
    ],
)
def test_a_difference_to_the_published_numbers_is_named(name, counts, sentences):
    assert differences(choose(name), labels(*counts)) == sentences


@pytest.mark.parametrize("key", ["asvspoof21-la", "asvspoof21-df"])
def test_the_subsets_of_2021_are_all_of_it(key):
    published = KNOWN[key].published
    assert (
        sum(published[subset].trials for subset in ("eval", "progress", "hidden"))
        == published["all"].trials
    )
