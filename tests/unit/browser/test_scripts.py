"""What the page computes around the network, run by node: equal to what ASDF computes."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from itertools import product

import numpy as np
import pytest
import soundfile

from asdf.audio import read_audio
from asdf.audio.recording_sources import Source
from asdf.audio.sample_rates import resample
from asdf.audio.speech_check import describe, evidence, has_speech, trees_content
from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration, calibrate, with_support
from asdf.scoring.parts import PartSearch
from asdf.scoring.waveform_scorer import Outcome
from asdf.scoring.whole_recording import (
    Summary,
    Window,
    is_silent,
    name_result,
    tally_windows,
)
from asdf.scoring.windows import cut_windows
from asdf.service.decoding import outline
from tests.unit.conftest import sound

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on this machine")

SCRIPTS = ("resample", "wav", "headers", "windows", "speech")
PROGRAM = """
const fs = require('node:fs');
const given = JSON.parse(fs.readFileSync(0, 'utf8'));
const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64')).buffer;
const floats = (text) => new Float32Array(bytes(text));
const text = ({ buffer, byteOffset, byteLength }) =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');
const answer = (() => { %s })();
fs.writeFileSync(1, JSON.stringify(answer ?? null));
"""


def run(body: str, **given):
    """Run lines of JavaScript after the page's scripts; `given` and the answer are plain."""
    folder = files("asdf.browser") / "page"
    sources = [(folder / f"{name}.js").read_text() for name in SCRIPTS]
    program = "\n".join([*sources, PROGRAM % body])
    done = subprocess.run(
        [NODE, "-e", program], input=json.dumps(given), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def encode(content) -> str:
    import base64

    return base64.b64encode(bytes(content)).decode()


def floats(waveform: np.ndarray) -> str:
    return encode(waveform.astype(np.float32).tobytes())


def decode(text: str) -> np.ndarray:
    import base64

    return np.frombuffer(base64.b64decode(text), np.float32)


# Of the last one ASDF computes without a table.
RATES = [8000, 11025, 16000, 22050, 32000, 44100, 48000, 96000, 12345, 44099]


def test_resampling_is_that_of_asdf():
    waveforms = {rate: sound(rate // 3 + 7, rate).astype(np.float32) for rate in RATES}
    body = """
      return given.waveforms.map(([rate, samples]) => text(resample(floats(samples), rate)));
    """
    pairs = [[rate, floats(waveform)] for rate, waveform in waveforms.items()]
    results = run(body, waveforms=pairs)
    for (rate, waveform), result in zip(waveforms.items(), results, strict=True):
        expected = resample(waveform, rate)
        assert decode(result).shape == expected.shape
        # Sums of some dozen products within full scale, and sines that differ in a last bit.
        np.testing.assert_allclose(decode(result), expected, rtol=0, atol=1e-6)


WAVS = [
    ("PCM_U8", 1),
    ("PCM_16", 1),
    ("PCM_16", 2),
    ("PCM_24", 3),
    ("PCM_32", 1),
    ("FLOAT", 2),
    ("DOUBLE", 1),
    ("ULAW", 1),
    ("ALAW", 2),
]


def wav(subtype: str, channels: int, samples: int = 2500, kind: str = "WAV") -> bytes:
    content = io.BytesIO()
    channel_samples = [sound(samples, seed) for seed in range(channels)]
    soundfile.write(content, np.stack(channel_samples, 1), 16000, subtype, format=kind)
    return content.getvalue()


def test_wav_files_are_read_to_the_same_samples():
    contents = [wav(*each) for each in WAVS] + [wav("PCM_16", 2, kind="WAVEX")]
    body = """
      return given.contents.map((content) => {
        const { samples, rate } = readWav(bytes(content));
        return [text(samples), rate];
      });
    """
    results = run(body, contents=list(map(encode, contents)))
    for content, (samples, rate) in zip(contents, results, strict=True):
        assert rate == 16000
        np.testing.assert_array_equal(decode(samples), read_audio(Source("a.wav", content)))


def test_wav_files_that_asdf_refuses_are_refused():
    whole = wav("PCM_16", 1)
    nan = wav("FLOAT", 1)[:-4] + np.float32(np.nan).tobytes()
    bad = {"cut off": whole[:-100], "joined": whole + whole, "not finite": nan}
    body = """
      return given.contents.map((content) => {
        try {
          return readWav(bytes(content)).samples.length;
        } catch (error) {
          return error.message;
        }
      });
    """
    good = [whole, whole + b"LIST\4\0\0\0abcd", wav("IMA_ADPCM", 1)]
    messages = run(body, contents=[encode(content) for content in (*bad.values(), *good[:2])])
    for content in bad.values():
        with pytest.raises(AsdfError):
            read_audio(Source("a.wav", content))
    assert "100" not in messages[0] and "cannot be decoded to its end" in messages[0]
    assert "would be heard in part only" in messages[1]
    assert "not finite" in messages[2]
    assert messages[3:] == [2500, 2500]
    # Another coding is the browser's matter.
    assert run("return readWav(bytes(given.content))", content=encode(good[2])) is None


def test_the_sampling_rate_of_headers():
    expected = {}
    for kind, subtype, rate in [
        ("FLAC", "PCM_16", 44100),
        ("FLAC", "PCM_24", 96000),
        ("OGG", "VORBIS", 22050),
        ("OGG", "OPUS", 48000),
        ("MP3", "MPEG_LAYER_III", 44100),
        ("MP3", "MPEG_LAYER_III", 16000),
        ("MP3", "MPEG_LAYER_III", 8000),
    ]:
        content = io.BytesIO()
        soundfile.write(content, sound(rate), rate, subtype, format=kind)
        expected[encode(content.getvalue())] = (kind, rate, subtype == "PCM_16")
    tagged = b"ID3\4\0\0\0\0\1\0" + bytes(128) + b"fLaC"
    body = "return given.contents.map((content) => kindOf(bytes(content)));"
    kinds = run(body, contents=[*expected, encode(tagged), encode(b"nothing" * 100)])
    for kind, (name, rate, is_short) in zip(kinds, expected.values(), strict=False):
        assert kind["name"] == name.replace("OGG", "Ogg")
        assert kind["rate"] == rate
        assert bool(kind.get("isShort")) == is_short
    assert kinds[-1] == {"name": "unknown", "rate": 0}


def test_the_scale_of_positive_samples_is_restored():
    whole = np.array([32767, 1, 0, -1, -32768, 12345])
    divided = np.where(whole > 0, whole / 32767, whole / 32768)
    body = "return given.rows.map((row) => text(restoreScale(floats(row))));"
    rows = [floats(divided), floats(whole / 32768), floats(np.array([0.1, -0.1]))]
    results = [decode(row) for row in run(body, rows=rows)]
    np.testing.assert_array_equal(results[0], (whole / 32768).astype(np.float32))
    np.testing.assert_array_equal(results[1], (whole / 32768).astype(np.float32))
    np.testing.assert_array_equal(results[2], np.float32([0.1, -0.1]))


def test_windows_are_cut_as_asdf_cuts_them():
    cases = []
    for length in (1, 5, 10, 11, 19, 20, 21, 25, 40):
        cases += [(length, 10, 10), (length, 10, 5), (length, 10, 3)]
    results = run("return given.cases.map((each) => cutWindows(...each));", cases=cases)
    for (length, window, hop), result in zip(cases, results, strict=True):
        cut = cut_windows([np.zeros(length, np.float32)], window, hop)
        assert result == [[part.start, part.start + len(part.waveform)] for part in cut]


RULES = {
    "min_samples": 6000,
    "max_samples": 16000,
    "score": "bona_fide",
    "calibration": {"scale": 2.0, "offset": -0.5},
    "threshold": 0.1,
}


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_a_recording_is_concluded_as_asdf_concludes_it(is_calibrated):
    calibration = Calibration(2.0, -0.5, 0.1) if is_calibrated else None
    rules = {**RULES, "calibration": RULES["calibration"] if is_calibrated else None}
    search = PartSearch(8000, 4000, -0.3)
    rules["search"] = {"window": 8000, "hop": 4000, "threshold": -0.3}
    summary = Summary(calibration, 0.1, 16000, {}, search)
    rng = np.random.default_rng(0)
    cases = []
    expected = []
    for length in (4000, 9000, 16000, 40000, 48000):
        for silence in ("none", "some", "all"):
            windows = draw_windows(length, 16000, 16000, silence, rng)
            searched = []
            if search.applies(length):
                searched = draw_windows(length, 8000, 4000, silence, rng)
            cases.append([as_plain(windows), length, rules, as_plain(searched)])
            parts = summary.describe_parts(searched)
            expected.append(summary.describe_whole(tally_windows(windows), parts=parts))
    results = run("return given.cases.map((each) => concludeWhole(...each));", cases=cases)
    for result, score in zip(results, expected, strict=True):
        assert result["score"] == pytest.approx(float(score), rel=1e-12)
        assert result["raw"] == pytest.approx(score.raw, rel=1e-12)
        assert result["verdict"] == score.verdict
        assert result.get("remark", "") == score.remark
        assert result["seconds"] == score.seconds
        assert result["seconds_scored"] == score.seconds_scored
        lowest = None if score.lowest is None else score.lowest.entry()
        assert result.get("lowest") == pytest.approx(lowest)
        entry = name_result(score, "").entry()
        assert result.get("searched") == entry.get("searched")
        assert len(result.get("parts", [])) == len(entry.get("parts", []))
        for part, expected_part in zip(result.get("parts", []), score.parts, strict=True):
            assert part == pytest.approx(expected_part.entry())
    verdicts = {result["verdict"] for result in results}
    assert verdicts == {"bona fide", "spoof", "mixed", None}
    assert max(len(result.get("parts", [])) for result in results) > 1


def draw_windows(length, window, hop, silence, rng) -> list[Window]:
    """Return windows with scores that are drawn, and with silence in some or all of them."""
    windows = []
    for index, cut in enumerate(cut_windows([np.zeros(length, np.float32)], window, hop)):
        silent = silence == "all" or (silence == "some" and index == 1)
        end = cut.start + len(cut.waveform)
        windows.append(Window(cut.start, end, silent, Outcome(float(rng.normal(0.2)))))
    return windows


def as_plain(windows: list[Window]) -> list[dict]:
    return [{"start": w.start, "end": w.end, "silent": w.silent, "raw": w.raw} for w in windows]


def test_calibrations_have_knots_and_bounds():
    raw = np.linspace(-5, 5, 101)
    knots = {"map_scores": [-2.0, -0.5, 1.0, 3.0], "map_llrs": [-4.0, -1.0, 0.5, 6.0]}
    bounds = {"lowest_llr": -5.5, "highest_llr": 7.0}
    affine = {"scale": 1.5, "offset": -0.25}
    body = """
      const row = (calibration) => given.raw.map((raw) => shownScore(raw, { calibration }));
      return given.maps.map(row);
    """
    maps = [affine, {**affine, **bounds}, {**affine, **knots}, {**affine, **knots, **bounds}, None]
    results = run(body, raw=raw.tolist(), maps=maps)
    straight = 1.5 * raw - 0.25
    beyond = raw - np.clip(raw, -2, 3)
    bent = np.interp(raw, knots["map_scores"], knots["map_llrs"]) + 1.5 * beyond
    expected = [straight, straight.clip(-5.5, 7), bent, bent.clip(-5.5, 7), raw]
    np.testing.assert_allclose(results, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["logistic", "bi-gaussian"])
def test_likelihood_ratios_have_their_words_intervals_and_limits(method):
    rng = np.random.default_rng(8)
    classes = (rng.normal(1.5, 1, 60), rng.normal(-1.5, 2, 90))
    calibration = with_support(calibrate(*classes, method=method), *classes, replicates=60)
    calibration = replace(calibration, bona_fide=1060, spoof=90)
    summary = Summary(calibration, calibration.threshold, 16000, {})
    rules = {**RULES, "calibration": calibration.content(), "threshold": calibration.threshold}
    raw = np.linspace(-9, 9, 37)
    body = """
      const window = (raw, speech) => ({ start: 0, end: 16000, raw, speech });
      const whole = (raw, speech) => concludeWhole([window(raw, speech)], 16000, given.rules);
      return [true, false].flatMap((speech) => given.raw.map((raw) => whole(raw, speech)));
    """
    results = run(body, raw=raw.tolist(), rules=rules)
    limited = 0
    heard = product((True, False), raw)
    for (is_speech, value), result in zip(heard, results, strict=True):
        window = Window(0, 16000, False, Outcome(float(value)), is_speech)
        score = summary.describe_whole(tally_windows([window]))
        entry = name_result(score, "").entry()
        assert result["verdict"] == entry["verdict"]
        assert ("unbounded_llr" in result) == ("unbounded_llr" in entry)
        for key in {"llr", "log10_llr", "llr_interval", "unbounded_llr"} & set(entry):
            assert result[key] == pytest.approx(entry[key], rel=1e-9, abs=1e-9), key
        assert result.get("llr_words", "") == entry.get("llr_words", "")
        assert ("llr_words" in result) == is_speech
        assert result.get("remark") == entry.get("remark")
        limited += "limit" in entry.get("remark", "")
    assert 0 < limited < len(raw)


def make_sounds() -> dict[str, np.ndarray]:
    """Sounds of every branch of the check, long and short."""
    rng = np.random.default_rng(3)
    time = np.arange(80_000) / 16000
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / 16000
    voice = sum(np.sin(order * phase) / order for order in range(1, 20))
    syllables = np.clip(np.sin(2 * np.pi * 3.5 * time), 0, 1)
    hiss = rng.normal(0, 1, time.size)
    moved = voice * syllables + 0.3 * np.diff(hiss, prepend=0) * np.roll(syllables, 2300)
    clicks = np.zeros(time.size)
    clicks[rng.integers(0, time.size, 40)] = 1
    return {
        "voice": 0.1 * moved,
        "short voice": 0.1 * moved[:20_000],
        "less than a second": 0.1 * hiss[:15_000],
        "tone": 0.4 * np.sin(2 * np.pi * 440 * time),
        "noise": 0.1 * hiss,
        "clicks": np.convolve(clicks, np.exp(-np.arange(200) / 30))[: time.size],
        "tone, then voice": np.concatenate([np.sin(5000 * time[:64_000]), 0.1 * moved]),
        "walk": sound(70_000),
        "almost silence": 1e-4 * np.sign(np.sin(40 * time)),
    }


def test_speech_is_found_where_asdf_finds_it():
    sounds = {name: waveform.astype(np.float32) for name, waveform in make_sounds().items()}
    body = """
      return given.waveforms.map((each) => {
        const samples = floats(each);
        const segment = samples.subarray(0, SEGMENT);
        const numbers = describeSegment(segment);
        return [hasSpeech(samples, given.trees), speechEvidence(segment, given.trees), numbers];
      });
    """
    waveforms = list(map(floats, sounds.values()))
    results = run(body, waveforms=waveforms, trees=trees_content())
    found = {}
    for (name, waveform), (speech, sum_of_trees, numbers) in zip(
        sounds.items(), results, strict=True
    ):
        segment = waveform[:64_000]
        expected = np.nan_to_num(describe(segment))
        # Of what does not change, how it changes is rounding alone.
        if name not in ("tone", "tone, then voice", "almost silence"):
            np.testing.assert_allclose(numbers, expected, rtol=2e-3, atol=2e-3, err_msg=name)
            assert sum_of_trees == pytest.approx(evidence(segment), abs=1e-6), name
        assert speech == has_speech(waveform), name
        found[name] = speech
    assert found["voice"] and found["tone, then voice"] and found["less than a second"]
    assert not found["tone"] and not found["noise"]
    assert run("return hasSpeech(floats(given.tone), null);", tone=waveforms[3]) is True


def test_what_has_no_speech_is_not_judged_and_in_no_part():
    rules = {**RULES, "search": {"window": 8000, "hop": 4000, "threshold": 9.0}}
    body = """
      const windows = (speech) => [0, 16000].map((start, index) => (
        { start, end: start + 16000, silent: false, speech: speech[index], raw: 1 }));
      const parts = (speech) => windows(speech);
      return [[true, false], [false, false]].map((speech) =>
        concludeWhole(windows(speech), 32000, given.rules, parts(speech)));
    """
    some, none = run(body, rules=rules)
    assert some["verdict"] == "mixed" and "remark" not in some
    assert some["searched"]["windows"] == 1 and some["parts"][0]["end_s"] == 1.0
    assert none["verdict"] is None and none["remark"] == "not judged: no speech found"
    assert none["searched"]["windows"] == 0 and none["parts"] == []


def test_short_windows_are_repeated_and_silence_is_found():
    body = """
      return given.waveforms.map((each) => {
        const samples = floats(each);
        return [text(heardOf(samples, given.rules)), isSilent(samples)];
      });
    """
    quiet = np.full(5000, 0.3) + 0.9e-4 * np.sign(sound(5000))
    waveforms = [sound(2500), sound(6000), sound(9000), sound(20000), quiet, np.zeros(7000)]
    results = run(body, waveforms=list(map(floats, waveforms)), rules=RULES)
    for waveform, (heard, silent) in zip(waveforms, results, strict=True):
        waveform = waveform.astype(np.float32)
        count = min(max(len(waveform), 6000), 16000)
        np.testing.assert_array_equal(decode(heard), np.resize(waveform, count))
        assert silent == is_silent(waveform)
    assert [silent for _, silent in results] == [False] * 4 + [True] * 2


def test_scores_are_the_logit_or_the_difference():
    body = "return ['bona_fide', 'difference', 'llr'].map((rule) => rawScore([1, 3.5], rule));"
    assert run(body) == [3.5, 2.5, 2.5]


def test_a_score_that_is_no_number_is_no_result():
    body = """
      try {
        return concludeWhole([{ start: 0, end: 9000, silent: false, raw: NaN }], 9000, given.rules);
      } catch (error) {
        return error.message;
      }
    """
    assert "not a finite number" in run(body, rules=RULES)


def test_the_outline_has_the_extremes_of_equal_parts():
    waveform = sound(10007).astype(np.float32)
    body = "return outlineOf(floats(given.waveform), 100);"
    result = run(body, waveform=floats(waveform))
    expected = outline(waveform, 100)
    for key in ("low", "high"):
        np.testing.assert_allclose(result[key], expected[key], rtol=0, atol=1.1e-4)
