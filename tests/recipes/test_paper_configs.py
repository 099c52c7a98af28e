"""The configs `paper-...` have the numbers of the published code, and say where these come from.

The numbers are copied from the code and the commands of the repositories that the configs name.
"""

import math
import re
from dataclasses import replace
from operator import attrgetter

import pytest
import torch

from asdf.metrics.detection import cllr
from asdf.recipe.supplied import copy_recipe
from asdf.settings import Settings
from asdf.settings.relations import contradictions
from asdf.settings.sections import OPTIMIZERS, RawBoost, Sections
from asdf.training.schedules import ScheduleProgress, find_schedule, update_plateau
from asdf.training.training_progress import Progress
from tests.conftest import CONFIG_FILES, RECIPE, ROOT

PAPERS = ROOT / "recipes" / "papers"
FILES = sorted((PAPERS / "configs").glob("*.py"))
TEXT = "\n".join(path.read_text() for path in FILES)
WHERE = (
    r"(ICASSP|Odyssey|Interspeech|ACM MM|IEEE TIFS|IEEE SPL|SLT)\s20\d\d"
    r"|Post-training for Deepfake\s+Speech\s+Detection\", 2025|arXiv 2509\.20682"
)
INHERITED = ("paper", "paper-xlsr")
CLIP = 64600
NETWORKS = "asdf.networks."

# Config: network; rate; minibatch; epochs; samples of a clip; which part of an utterance;
# RawBoost (0: none); what chooses the best epoch.
PUBLISHED = {
    "paper-aasist": ("AASIST", 1e-4, 24, 100, CLIP, "random", 0, "eer"),
    "paper-ssl-aasist-la": ("SSL_AASIST", 1e-6, 14, 100, CLIP, "start", 5, "cllr"),
    "paper-ssl-aasist-df": ("SSL_AASIST", 1e-6, 14, 100, CLIP, "start", 3, "cllr"),
    "paper-sls": ("SSL_SLS", 1e-6, 5, 50, CLIP, "start", 3, "cllr"),
    "paper-nes2net-x": ("SSL_Nes2NetX", 2.5e-7, 12, 100, CLIP, "start", 4, "cllr"),
    "paper-conformer": ("SSL_Conformer", 1e-6, 20, 75, 66800, "start", 5, "cllr"),
    "paper-conformer-tcm": ("SSL_ConformerTCM", 1e-6, 20, 75, 66800, "start", 5, "cllr"),
    "paper-conformer-tcm-df": ("SSL_ConformerTCM", 1e-6, 20, 75, 66800, "start", 3, "cllr"),
    "paper-xlsr-mamba": ("SSL_Mamba", 1e-6, 20, 75, 66800, "start", 5, "cllr"),
    "paper-xlsr-mamba-df": ("SSL_Mamba", 1e-6, 20, 75, 66800, "start", 3, "cllr"),
    "paper-mhfa-asvspoof5": ("SSL_MHFA", 5e-5, 32, 5, 48000, "random", 0, "eer"),
    "paper-wavlm-nes2net-asvspoof5": ("SSL_Nes2NetX", 1e-6, 64, 100, CLIP, "random", 0, "eer"),
    "paper-wavlm-aasist-asvspoof5": ("SSL_AASIST", 1e-6, 64, 100, CLIP, "random", 0, "eer"),
    "paper-lfcc-lcnn": ("ComposedDetector", 3e-4, 64, 100, CLIP, "random", 0, "cllr"),
    "paper-lfcc-lcnn-p2sgrad": ("ComposedDetector", 3e-4, 64, 100, CLIP, "random", 0, "eer"),
    "paper-antideepfake": ("SSL_Linear", 1e-7, 10_000, 30, CLIP, "random", 5, "eer"),
    "paper-rawnet2": ("RawNet2", 1e-4, 32, 100, CLIP, "start", 0, "eer"),
}
LCNN = {
    "front_end.front_end_class": "lfcc",
    "back_end.back_end_class": "lcnn",
    "network.class_weights": (1, 1),
    "network.weight_decay": 0,
    "network.schedule": "step",
    "network.step_epochs": 10,
    "network.step_factor": 0.5,
    "network.early_stop_evaluations": 50,
    "spectrum.filters": 20,
}
AVERAGED = {
    "network.early_stop_evaluations": 7,
    "network.average_best_networks": 5,
    "recipe.selected_epochs": ("average",),
}
CONFORMER = {
    "back_end.conformer_dimension": 144,
    "back_end.conformer_heads": 4,
    "back_end.conformer_kernel": 31,
    "back_end.conformer_blocks": 4,
    **AVERAGED,
}
MAMBA = {
    "back_end.mamba_dimension": 144,
    "back_end.mamba_blocks": 6,
    "back_end.mamba_states": 16,
    **AVERAGED,
}
NES2NET = {
    "back_end.nes2net_splits": (8, 8),
    "back_end.nes2net_squeeze": 1,
    "back_end.nes2net_pooling": "mean",
}
FURTHER = {
    "paper-aasist": {"network.schedule": "cosine", "network.min_learning_rate": 5e-6},
    "paper-sls": {"network.min_loss_change_ratio": 0, "network.max_consecutive_lr_updates": 1},
    "paper-nes2net-x": {**NES2NET, "back_end.nes2net_dilation": 2},
    "paper-conformer": CONFORMER,
    "paper-conformer-tcm": CONFORMER,
    "paper-conformer-tcm-df": CONFORMER,
    "paper-xlsr-mamba": MAMBA,
    "paper-xlsr-mamba-df": MAMBA,
    "paper-mhfa-asvspoof5": {
        "recipe.training_sets": ("asvspoof5:train",),
        "front_end.weights": "torchaudio:WAVLM_BASE_PLUS",
        "back_end.mhfa_heads": 32,
        "network.optimizer": "adamw",
        "network.weight_decay": 1e-7,
        "network.class_weights": (1, 1),
        "network.min_learning_rate": 5e-7,
        "network.average_best_networks": 2,
    },
    "paper-wavlm-nes2net-asvspoof5": {
        "recipe.training_sets": ("asvspoof5:train",),
        "front_end.weights": "torchaudio:WAVLM_LARGE",
        **NES2NET,
        "back_end.nes2net_dilation": 1,
        "network.schedule": "cosine",
        "network.min_learning_rate": 1e-7,
        "network.early_stop_evaluations": 5,
        "network.class_weights": (0.1, 0.9),
        "network.weight_decay": 1e-4,
        "augmentation.noise_probability": 0.25,
        "augmentation.reverberation_probability": 0.25,
    },
    "paper-lfcc-lcnn": {**LCNN, "spectrum.n_fft": 1024, "spectrum.high_hz": 4000},
    "paper-lfcc-lcnn-p2sgrad": {
        **LCNN,
        "network.loss": "p2sgrad",
        "spectrum.n_fft": 512,
        "spectrum.high_hz": 8000,
    },
    "paper-antideepfake": {
        "front_end.weights": "hub:facebook/mms-300m",
        "front_end.normalize_waveforms": True,
        "lengths.minibatch_s": 100,
        "lengths.min_crop_s": 10,
        "lengths.max_crop_s": 13,
        "lengths.crop": "longer",
        "lengths.masks": False,
        "network.optimizer": "torch.optim.AdamW",
        "optimizer.eps": 1e-6,
        "network.weight_decay": 0.01,
        "network.class_weights": (1, 1),
        "network.warmup_steps": 80_000,
        "network.max_steps": 800_000,
        "network.evaluation_interval_steps": 100_000,
        "network.gradient_clip_norm": 100,
    },
    "paper-rawnet2": {"network.schedule": "constant", "back_end.rawnet2_filters": 20},
}
# The arguments that TakHemlata/SSL_Anti-spoofing and the codes derived from it give to RawBoost.
BANDS = {"nBands": 5, "minF": 20, "maxF": 8000, "minBW": 100, "maxBW": 1000}
TAPS = {"minCoeff": 10, "maxCoeff": 100, "minG": 0, "maxG": 0, "N_f": 5}
NOISE = {"minBiasLinNonLin": 5, "maxBiasLinNonLin": 20, "SNRmin": 10, "SNRmax": 40}
RAWBOOST = RawBoost(enabled=True, applyingRatio=1.0, P=10, g_sd=2, **BANDS, **TAPS, **NOISE)


def comment_of(config: str) -> str:
    """The comment above a config, without its marks."""
    above = re.search(rf"((?:^#.*\n)+)^{config} <", TEXT, re.MULTILINE)
    return re.sub(r"^# ?", "", above.group(1), flags=re.MULTILINE)


@pytest.fixture
def load():
    """Loads a config of the recipe, as all sections."""
    Settings._instance = None
    Settings(RECIPE / "configs" / "init_config.py")

    def one(config: str) -> Sections:
        return next(Settings().snapshot() for _ in Settings().load_settings(CONFIG_FILES, [config]))

    yield one
    Settings._instance = None


def test_each_config_of_a_paper_is_here():
    names = re.findall(r"^(paper[\w-]*) <", TEXT, re.MULTILINE)
    assert sorted(names) == sorted([*INHERITED, *PUBLISHED])


@pytest.mark.parametrize("config", PUBLISHED)
def test_a_config_has_the_published_numbers(load, config):
    sections = load(config)
    network = sections.network
    kind, rate, minibatch, epochs, clip, position, algo, metric = PUBLISHED[config]
    assert network.network_class == NETWORKS + kind
    assert network.initial_learning_rate == pytest.approx(rate)
    assert (network.minibatch_size, network.optimizer_step_interval) == (minibatch, 1)
    assert network.max_epochs == epochs
    assert (network.train_clip_size, network.clip_position) == (clip, position)
    assert network.validation_metric == metric
    assert network.optimizer in (*OPTIMIZERS, "torch.optim.AdamW")
    assert network.weight_decay_skiplist == ()
    in_half = config == "paper-antideepfake"
    assert sections.computing.precision == ("fp16" if in_half else "fp32")
    assert sections.rawboost.enabled == bool(algo)
    if algo:
        assert vars(sections.rawboost) == {**vars(RAWBOOST), "algo": algo}
    for name, value in FURTHER.get(config, {}).items():
        assert attrgetter(name)(sections) == value, name


@pytest.mark.parametrize("config", PUBLISHED)
def test_a_config_contradicts_nothing(load, config):
    sections = load(config)
    assert not list(contradictions(sections))
    network = sections.network
    # Cllr means something for likelihood ratios alone.
    assert (network.validation_metric == "cllr") <= (network.score == "llr")
    if "average" in sections.recipe.selected_epochs:
        assert network.average_best_networks > 0


def test_those_of_2019_weigh_classes_and_decay_as_published(load):
    for config in ("paper-aasist", "paper-ssl-aasist-la", "paper-sls", "paper-rawnet2"):
        network = load(config).network
        assert (network.optimizer, network.adam_betas) == ("adam", (0.9, 0.999))
        assert network.class_weights == (0.1, 0.9)
        assert network.weight_decay == 0.0001
        for limit in ("min", "max"):
            name = f"{limit}_evaluation_utterance_length_in_samples"
            assert getattr(network, name) == CLIP, name


@pytest.mark.parametrize("config", PUBLISHED)
def test_a_comment_has_the_source_the_command_and_the_differences(config):
    comment = comment_of(config)
    assert re.search(r"\(.*?et al\.|Wang and Yamagishi|Xiao and Das", comment)
    assert re.search(WHERE, comment)
    assert f"python run.py {config}" in comment
    assert re.search(r"^Differs: ", comment, re.MULTILINE)


def test_the_readme_has_each_config():
    readme = (PAPERS / "README.md").read_text()
    assert [name for name in PUBLISHED if f"`{name}`" not in readme] == []


def test_the_rate_of_wedefense(load):
    """As ExponentialDecrease: scale * initial * (final / initial) ** (step / all), warmed up."""
    sections = load("paper-mhfa-asvspoof5")
    schedule = find_schedule(sections, RECIPE)
    steps = 100  # in an epoch; 5 epochs, of which 2 are warm-up
    for step in (0, 1, 150, 200, 350, 500):
        expected = 0.5 * min(1, step / 200) * 1e-4 * math.exp(step / 500 * math.log(1e-6 / 1e-4))
        progress = ScheduleProgress(done=step / (5 * steps), epochs=step / steps, step=step)
        share = schedule.factor(sections, progress)
        assert share * sections.network.initial_learning_rate == pytest.approx(expected)


def test_the_rate_of_antideepfake(load):
    """As SpeechBrain's WarmAndExpDecayLRSchedule after its warm-up, at some steps by hand."""
    sections = load("paper-antideepfake")
    schedule = find_schedule(sections, RECIPE)
    for step, share in ((0, 1), (80_000, 1), (440_000, 0.1), (800_000, 0.01)):
        assert schedule.factor(sections, ScheduleProgress(step=step)) == pytest.approx(share)


def test_sls_ends_after_the_first_epoch_whose_loss_rises(load):
    """As main.py of QiShanZhang/SLSforASVspoof-2021-DF, whose patience is 1."""
    network = load("paper-sls").network
    progress = Progress()
    ends = []
    for loss in (0.3, 0.1, 0.0999, 0.04, 0.0401):
        update_plateau(network, progress, loss)
        ends.append(bool(progress.finished))
    assert ends == [False, False, False, False, True]


def test_cllr_of_ratios_is_nearly_the_published_development_loss():
    """Of ASVspoof 2019 LA's counts, by PyTorch's weighted cross-entropy."""
    counts_2 = torch.tensor([22296, 2548])
    weights_2 = torch.tensor([0.1, 0.9])
    labels_B = torch.repeat_interleave(torch.tensor([0, 1]), counts_2)
    noise_B2 = 2 * torch.randn(len(labels_B), 2, generator=torch.Generator().manual_seed(1))
    logits_B2 = noise_B2 + torch.nn.functional.one_hot(labels_B, 2)
    loss = torch.nn.functional.cross_entropy(logits_B2, labels_B, weight=weights_2)
    training_priors_2 = torch.tensor([22800, 2580]) * weights_2
    log_odds = torch.log(training_priors_2[1] / training_priors_2[0])
    ratios_B = logits_B2[:, 1] - logits_B2[:, 0] - log_odds
    bits = cllr(ratios_B[labels_B == 1].numpy(), ratios_B[labels_B == 0].numpy())
    assert bits * math.log(2) == pytest.approx(float(loss), rel=0.01)


@pytest.mark.slow
def test_a_dry_run_misses_the_corpora_alone(recipe, capsys, tmp_path):
    copy_recipe(recipe.folder / "copy")
    recipe = replace(recipe, folder=recipe.folder / "copy")
    (tmp_path / "none").mkdir()
    words = ("paper-mhfa-asvspoof5", "paper-rawnet2", "--dry-run", "front_end.weights=None")
    folder = f"paths.database_folder={tmp_path / 'none'}"
    outcome = recipe.call(capsys, *words, folder, "front_end.architecture=tiny")
    problems = outcome.output.partition("error: ")[2].strip().splitlines()
    assert outcome.status == 1 and problems
    for problem in problems:
        assert re.search(r"(ASVspoof|In-the-Wild).* is not in", problem), problems
