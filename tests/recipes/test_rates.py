"""Training at other rates and on two channels, by the files of docs/training.md."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.audio import read_audio
from asdf.networks import build_network
from asdf.settings import Settings
from asdf.settings.sections import Audio
from tests.conftest import CONFIG_FILES, RECIPE
from tests.recipes.resuming import assert_resumes_exactly

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```\n\n((?:    \S[^\n]*\n)+)", re.DOTALL)
RATES = {"my_singing": 44_100, "my_stereo": 24_000}
EXAMPLES = {name: (code, config) for name, code, config in EXAMPLE.findall(PAGE) if name in RATES}

BASE = """
shown < debug
recipe.end_stage = 2
paths.system_folder = 'shown'
network.max_epochs = 2
network.minibatch_size = 4
network.checkpoint_interval_steps = 2
network.print_interval = 1
"""


@pytest.fixture
def shown(recipe, tmp_path, request):
    """A recipe folder with a file of the page; of two channels with recordings of two."""
    name = request.param
    code, config = EXAMPLES[name]
    (recipe.folder / f"{name}.py").write_text(code)
    recipe.add_configs(BASE + "\n".join(line.strip() for line in config.splitlines()) + "\n")
    if name == "my_stereo":
        init = recipe.folder / "configs" / "init_config.py"
        corpus = Path(re.search(r"database_folder = '(.*)'", init.read_text())[1])
        shutil.copytree(corpus, tmp_path / "stereo")
        for path in sorted((tmp_path / "stereo").rglob("*.flac")):
            samples, rate = soundfile.read(path, dtype="float32")
            soundfile.write(path, np.stack([samples, np.roll(samples, 8)], axis=1), rate)
        init.write_text(init.read_text().replace(str(corpus), str(tmp_path / "stereo")))
    recipe.name = name
    return recipe


def examples(function):
    return pytest.mark.parametrize("shown", list(EXAMPLES), indirect=True)(function)


def test_the_page_has_both_files():
    assert list(EXAMPLES) == list(RATES)


@examples
def test_a_dry_run_then_training_scores_and_the_detector_alike(shown, capsys):
    dry = shown.call(capsys, "shown", "--dry-run").ok()
    assert not shown.system("shown").exists(), dry.output
    shown.call(capsys, "shown").ok()
    rate = RATES[shown.name]
    network = shown.system("shown") / "networks" / "epoch.2.pt"
    content = shown.load("epoch.2", "shown")
    channels = "all" if shown.name == "my_stereo" else "mean"
    assert content["settings"]["audio"] == {"sample_rate": rate, "channels": channels}
    stated = shown.system("shown") / "scores" / "epoch.2" / "demo-eval.scored.json"
    assert json.loads(stated.read_text())["sample_rate"] == rate
    scores = shown.scores("demo-eval", "epoch.2", "shown")
    detector = asdf.Detector(network, "cpu", shown.folder)
    folder = Path(shown_database(shown))
    for name, score in zip(scores.ids[:3], scores.scores[:3], strict=True):
        (path,) = folder.rglob(f"{Path(name).name}*")
        assert float(detector.score_trial(path)) == pytest.approx(score, abs=1e-4)
        # What the network hears is the resampled recording.
        heard = read_audio(path, audio=Audio(rate, channels))
        assert float(detector.score_trial(heard, rate)) == pytest.approx(score, abs=1e-4)


def shown_database(recipe) -> str:
    text = (recipe.folder / "configs" / "init_config.py").read_text()
    return re.search(r"database_folder = '(.*)'", text)[1]


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "processes"), [("0:5", 1), ("1:5", 2)])
@examples
def test_a_killed_run_ends_as_one_never_killed(shown, kill, processes):
    file = shown.folder / f"{shown.name}.py"
    code = re.sub(r"( +)(def forward\(.*\n)", r"\1\2\1\1fail_on_request(self)\n", file.read_text())
    file.write_text(f"from small_networks import fail_on_request\n{code}")
    assert_resumes_exactly(shown, "shown", processes=processes, TEST_KILL=kill)


@pytest.mark.parametrize("shown", ["my_singing"], indirect=True)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "network.network_class=asdf.networks.SSL_AASIST front_end.architecture=tiny",
            "audio.sample_rate = 44100: Wav2Vec2FrontEnd supports only 16,000 Hz",
        ),
        ("network.network_class=asdf.networks.AASIST", "44100: AASIST supports only 16,000 Hz"),
        ("audio.channels=all", "audio.channels = 'all': Singing takes one channel"),
        ("vocoding.vocoders=('griffin_lim',)", "requires 16 kHz and contradicts audio.sample_rate"),
        ("localisation.enabled=True", "requires 16 kHz and contradicts audio.sample_rate"),
        ("augmentation.chain=('codec',) augmentation.codecs=('mp3',)", "'mp3', which runs at 16 k"),
        ("audio.channels=1", "has one channel, 0, but audio.channels = 1"),
        ("audio.sample_rate=1000", "audio.sample_rate"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_message(shown, capsys, words, problem):
    shown.call(capsys, "shown", *words.split()).refused(problem, status=None)


@pytest.mark.parametrize("shown", ["my_stereo"], indirect=True)
def test_recordings_of_another_number_of_channels_are_named(shown, capsys):
    path = sorted(Path(shown_database(shown)).rglob("*.flac"))[0]
    samples, rate = soundfile.read(path)
    soundfile.write(path, samples[:, 0], rate)
    said = f"{path.name} has 1 channel, but the network takes 2"
    shown.call(capsys, "shown").refused(said, status=1)


@pytest.mark.parametrize("shown", ["my_singing"], indirect=True)
def test_lengths_of_one_rate_are_not_taken_for_another_s(shown, capsys):
    first = shown.call(capsys, "shown", "recipe.end_stage=0").ok()
    assert "measured demo-train" in first.output
    words = ("audio.sample_rate=8000", "recipe.end_stage=0", "network.train_clip_size=4000")
    other = shown.call(capsys, "shown", *words).ok()
    assert "measured demo-train" in other.output
    again = shown.call(capsys, "shown", "recipe.end_stage=0").ok()
    assert "measured demo-train" not in again.output


@pytest.mark.parametrize(
    ("config", "rate", "bands"), [("all-types", 48_000, 24_000), ("telephone", 8000, 4000)]
)
def test_the_configs_of_other_rates_build_networks_of_their_band(config, rate, bands):
    initial = Settings(RECIPE / "configs" / "init_config.py")
    configs = initial.read_configs(CONFIG_FILES, [config])
    (settings,) = (each.sections() for each in configs)
    sizes = build_network(settings).front_end.sizes
    assert (settings.audio.sample_rate, sizes.rate, sizes.high_hz) == (rate, rate, bands)
    assert sizes.hop == rate // 100
    # A clip is 4 s.
    assert settings.network.train_clip_size == 4 * rate
