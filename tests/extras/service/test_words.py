"""The words of the page for people, run by node."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files

import pytest

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on this machine")


def run(body: str):
    """Run lines of JavaScript after the page's words; the answer is plain."""
    words = (files("asdf.extras.service") / "page" / "words.js").read_text()
    program = f"{words}\nconsole.log(JSON.stringify((() => {{ {body} }})()));"
    done = subprocess.run(
        [NODE, "-e", program], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def test_no_verdict_has_its_colour_above_a_ratio_that_does_not_stand():
    body = """
      return ['bona fide', 'spoof', null].map((verdict) => [false, true].map((unlike) => [
        verdictWords({ verdict, unlike, remark: 'not judged: no speech found' }, 0),
        scoreWords({ score: 2.5, verdict, unlike }, { kind: 'llr', threshold: 0 }),
      ]));
    """
    genuine, spoof, none = run(body)
    for (like, like_score), (unlike, unlike_score) in (genuine, spoof):
        assert like["kind"] in ("genuine", "spoof") and unlike["kind"] == "mixed"
        assert unlike["text"].startswith(like["text"])
        assert unlike["text"].endswith(
            "it is unlike the recordings that the detector was calibrated on"
        )
        assert "times as common" in like_score
        assert "times as common" not in unlike_score and "2.5" in unlike_score
    # What is not judged is not compared with the set.
    assert none[0][0] == none[1][0]


def test_channels_that_differ_have_words_of_their_own():
    body = """
      const channels = [{ channel: 0, verdict: 'spoof' }, { channel: 1, verdict: null }];
      const tracks = [{ track: 1, verdict: 'bona fide' }, { track: 2, verdict: 'bona fide' }];
      return [['mixed', channels], ['undecided', tracks]].map(([verdict, channels]) => [
        verdictWords({ verdict, channels }, 0).text,
        scoreWords({ score: 2.5, verdict, channels }, { kind: 'llr', threshold: 0 }),
      ]);
    """
    (mixed, score), (undecided, _) = run(body)
    assert "(channel 0: spoof, channel 1: not judged)" in mixed
    assert "(track 1: bona fide, track 2: bona fide)" in undecided
    assert score == "The score, 2.5, is the lowest of its channels or sound tracks."
