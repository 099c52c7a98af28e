"""Copies of trials: rows with ids of their own, and the path and the columns of their sources."""

from pathlib import Path

import numpy as np
import pytest

from asdf.data.sampler_orders import Copies, append_copies
from asdf.trials.trial_list import TrialList, join

FIRST = TrialList(
    ["a/1.flac", "a/2.flac", "a/3.flac"],
    np.array([1, 0, 1]),
    columns={"speaker": ["s1", "s1", "s2"], "attack": ["-", "A01", "-"]},
    name="first",
    folder=Path("/data/first"),
)
SECOND = TrialList(
    ["1.wav", "2.wav"],
    np.array([1, 1]),
    columns={"codec": ["opus", ""]},
    name="second",
    folder=Path("/elsewhere"),
)


def copies(*pairs: tuple[int, int], vocoders: tuple[str, ...] = ("lpc", "phase")) -> Copies:
    sources, makers = np.array(pairs).T
    return Copies(sources, makers, vocoders)


def vocoders_of(trials: TrialList) -> list[str]:
    return [trials.vocoder(index) for index in range(len(trials))]


def test_a_copy_is_a_spoof_at_the_path_of_its_source():
    both = append_copies(FIRST, copies((2, 1), (0, 0)))
    assert list(both.ids) == [*FIRST.ids, "vocoded-phase:a/3.flac", "vocoded-lpc:a/1.flac"]
    assert both.labels.tolist() == [1, 0, 1, 0, 0] and both.labels.dtype == np.int8
    paths = [f"/data/first/a/{number}.flac" for number in (1, 2, 3, 3, 1)]
    assert [str(both.path(index)) for index in range(5)] == paths
    assert vocoders_of(both) == ["", "", "", "phase", "lpc"]
    assert both.columns == {
        "speaker": ["s1", "s1", "s2", "s2", "s1"],
        "attack": ["-", "A01", "-", "vocoded-phase", "vocoded-lpc"],
    }
    assert both.count_vocoded() == {"lpc": 1, "phase": 1}
    assert vocoders_of(FIRST) == ["", "", ""] and FIRST.count_vocoded() == {}


def test_of_a_joined_list_too():
    joined = join([FIRST, SECOND])
    both = append_copies(joined, copies((0, 1), (4, 1), (3, 0)))
    assert list(both.ids)[5:] == [
        "vocoded-phase:first:a/1.flac",
        "vocoded-phase:second:2.wav",
        "vocoded-lpc:second:1.wav",
    ]
    paths = "/data/first/a/1.flac /elsewhere/2.wav /data/first/a/1.flac /elsewhere/2.wav"
    assert [str(both.path(index)) for index in (0, 4, 5, 6)] == paths.split()
    assert both.path(7) == Path("/elsewhere/1.wav")
    assert both.columns["codec"] == ["", "", "", "opus", "", "", "", "opus"]
    assert both.name == "first+second"
    # What the list was made of has not changed.
    assert joined.vocoder(0) == "" and len(joined.origins) == 2


def test_what_is_selected_packed_and_joined_again_stays_a_copy():
    both = append_copies(FIRST, copies((2, 1), (0, 0)))
    again = join([SECOND, both.packed()]).select(np.array([6, 0, 5]))
    assert vocoders_of(again) == ["lpc", "", "phase"]
    paths = ["/data/first/a/1.flac", "/elsewhere/1.wav", "/data/first/a/3.flac"]
    assert [str(again.path(index)) for index in range(3)] == paths
    # Only those in the list are counted.
    assert again.select(np.array([0, 1])).count_vocoded() == {"lpc": 1}


def test_copies_of_one_trial_by_one_vocoder_have_different_ids():
    repeated = copies((0, 0), (0, 2), (0, 1), vocoders=("lpc", "phase", "lpc"))
    both = append_copies(FIRST, repeated)
    ids = ["vocoded-lpc:a/1.flac", "vocoded-lpc-2:a/1.flac", "vocoded-phase:a/1.flac"]
    assert list(both.ids)[3:] == ids
    assert both.columns["attack"][3:] == ["vocoded-lpc", "vocoded-lpc", "vocoded-phase"]
    assert both.count_vocoded() == {"lpc": 2, "phase": 1}
    assert len(set(both.ids)) == 6


@pytest.mark.parametrize("labels", [[1, 0], [1, 1]])
def test_where_no_attack_is_known_bona_fide_trials_have_none(labels):
    trials = TrialList(["1.wav", "2.wav"], np.array(labels))
    both = append_copies(trials, copies((0, 0)))
    assert both.columns["attack"] == ["-", "-" if labels[1] else "", "vocoded-lpc"]
