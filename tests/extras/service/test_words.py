"""The words of the page for people, run by node."""

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
    options = {"capture_output": True, "text": True, "timeout": 60, "check": True}
    done = subprocess.run([NODE, "-e", program], **options)
    return json.loads(done.stdout)


def test_no_verdict_has_its_colour_above_a_ratio_that_does_not_stand():
    body = """
      const doubts = [[], ['but foreign', 'But it is of another language']];
      return ['bona fide', 'spoof', null].map((verdict) => doubts.map((doubt) => [
        verdictWords({ verdict, shown: { doubt }, remark: 'not judged: no speech found' }, 0),
        scoreWords({ score: 2.5, verdict, shown: { doubt } }, { kind: 'llr', threshold: 0 }),
      ]));
    """
    genuine, spoof, none = run(body)
    for (valid, valid_score), (doubted, doubted_score) in (genuine, spoof):
        assert valid["kind"] in ("genuine", "spoof") and doubted["kind"] == "mixed"
        assert doubted["short"] == f"{valid['short']}, but foreign"
        assert doubted["text"] == f"{valid['text']}. But it is of another language"
        assert "times as common" in valid_score
        assert "times as common" not in doubted_score and "2.5" in doubted_score
    # What is not judged is not doubted.
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


SENTENCE = (
    "The detector cannot tell: it gives such a score to genuine and to spoofed speech about "
    "equally often."
)


def test_undecided_is_grey_and_says_why():
    body = """
      const part = { start_s: 12, end_s: 24, score: -0.5 };
      const cases = [
        { score: 0.5, shown: { is_clear: false } }, { score: 0.1 },
        { score: 0.5, parts: [part] }, { score: 2, shown: { is_clear: true }, parts: [part] },
        { score: 2, remark: 'LLR at the limit; speech in only 3 of 20 windows' },
        { score: -0.5, shown: { doubt: ['but foreign', 'But it is of another language'] } },
      ];
      return cases.map((each) => {
        const recording = { verdict: 'undecided', parts: [], remark: '', ...each };
        return [verdictWords(recording, 0), scoreWords(recording, { kind: 'llr', threshold: 0 })];
      });
    """
    answers = run(body)
    shown = [words for words, _ in answers]
    # The kind is a class of the page's style: without a colour of its own, it is grey.
    assert {words["kind"] for words in shown} == {"undecided"}
    texts = [words["text"] for words in shown]
    assert texts[:3] == [SENTENCE] * 3
    part = "a part of this scores lower, but not clearly (0:12 to 0:24, lowest score −0.5)"
    little = "there is too little speech (speech in only 3 of 20 windows)"
    assert texts[3:5] == [f"The detector cannot tell: {why}" for why in (part, little)]
    assert texts[5] == f"{SENTENCE} But it is of another language"
    for _, explained in answers:
        assert "as common" not in explained


def test_a_mixed_recording_has_no_ratio_of_a_whole_that_says_nothing():
    body = """
      return [[2.5, true], [-0.2, false]].map(([score, is_clear]) => scoreWords(
        { score, shown: { is_clear }, verdict: 'mixed' }, { kind: 'llr', threshold: 0 }));
    """
    genuine, unclear = run(body)
    assert "about 12.2 times as common in genuine speech" in genuine
    nothing = "says nothing about what sounds spoofed."
    assert unclear == f"The score of the whole recording, −0.2, {nothing}"


def test_speakers_and_channels_that_cannot_be_told_are_counted():
    body = """
      const channels = [{ channel: 0, verdict: 'undecided' }, { channel: 1, verdict: 'bona fide' }];
      return [speakersWords(channels), verdictWords({ verdict: 'undecided', channels }, 0)];
    """
    counted, words = run(body)
    assert counted == "2 speakers: 1 genuine, 1 undecided"
    assert words["kind"] == "undecided"
    assert "(channel 0: undecided, channel 1: bona fide)" in words["text"]
