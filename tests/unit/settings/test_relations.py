"""Settings that contradict each other: reported with the location of each."""

from __future__ import annotations

import re

import pytest

from asdf.settings import Settings, SettingsError

from .conftest import Write

# A value with its place, which follows the name of each of the two settings.
VALUE = re.compile(r" = (?:\([^)]*\)|\S+) \((?:runs\.py:\d|init\.py:\d|default)\)")
LONGEST = "network.max_evaluation_utterance_length_in_samples"
PLAIN = "network.score needs probabilities learnt by plain cross_entropy, not by"
FROZEN = "front_end.frozen trains nothing of the front end and contradicts"
SLS = "network.network_class = 'asdf.networks.SSL_SLS'"
CACHED = "front_end.cache_features = True\nnetwork.clip_position = 'start'"
NEEDS = "front_end.cache_features needs"
UNCHANGED = f"{NEEDS} clips without augmentation"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rawboost.SNRmin = 50", "rawboost.SNRmin is above rawboost.SNRmax"),
        ("rawboost.minG = 1", "rawboost.minG is above rawboost.maxG"),
        (f"{LONGEST} = 8000", f"{LONGEST.replace('max', 'min')} is above {LONGEST}"),
        (
            "network.min_learning_rate = 1.0",
            "network.min_learning_rate is above network.initial_learning_rate",
        ),
        ("recipe.end_stage = -0", ""),
        ("network.score = 'llr'", ""),
        ("network.score = 'llr'\nnetwork.loss = 'focal'\nrecipe.start_stage = 2", ""),
        ("network.score = 'llr'\nnetwork.loss = 'focal'", f"{PLAIN} network.loss"),
        ("network.score = 'llr'\nloss.label_smoothing = 0.1", f"{PLAIN} loss.label_smoothing"),
        (
            "network.score = 'llr'\naugmentation.mixup_probability = 0.5",
            f"{PLAIN} augmentation.mixup_probability",
        ),
        ("recipe.start_stage = 101", "recipe.start_stage is above recipe.end_stage"),
        ("computing.gpu_ids = (0, 1)", ""),
        (
            "computing.processes = 2",
            "computing.processes is more than the number of GPUs in computing.gpu_ids",
        ),
        ("computing.processes = 2\ncomputing.use_gpu = False", ""),
        ("computing.processes = 2\ncomputing.gpu_ids = None", ""),
        (
            "computing.compile = True\ncomputing.deterministic = True",
            "computing.deterministic excludes kernels chosen by measured speed, as by "
            "computing.compile",
        ),
        (
            "computing.compile = 'layers'\ncomputing.norms = 'bf16'",
            "computing.compile fuses norms with what follows them itself and cannot be combined "
            "with computing.norms",
        ),
        ("rawboost.minBW = 2000\nrawboost.maxBW = 2000", ""),
        (
            "front_end.unfreeze_after_epochs = 2",
            "front_end.frozen never trains the front end and contradicts "
            "front_end.unfreeze_after_epochs",
        ),
        ("lora.rank = 8", f"{FROZEN} lora.rank"),
        ("front_end.trained_parts = ('norms',)", f"{FROZEN} front_end.trained_parts"),
        (
            "network.save_only_trained = True",
            "network.save_only_trained omits parameters that pretrained weights restore, and there "
            "are none in front_end.weights",
        ),
        (
            SLS,
            "network.network_class takes clips of back_end.sls_samples = 64600 only, not of "
            "network.train_clip_size",
        ),
        (f"{SLS}\nnetwork.train_clip_size = 64600", ""),
        (f"{SLS}\nrecipe.start_stage = 2", ""),
        (
            "augmentation.chain = ('speed', 'noise')",
            "augmentation.chain includes 'noise', which cannot be used with "
            "augmentation.noise_folders",
        ),
        ("augmentation.chain = ('speed', 'codec')", ""),
        (
            "augmentation.chain = ('reverberation',)\naugmentation.reverberation_folders = ('R',)",
            "",
        ),
        (f"{CACHED}\nvocoding.vocoders = ('lpc', 'phase')", ""),
        (
            "front_end.cache_features = True",
            f"{NEEDS} the same clip of an utterance in every epoch (network.clip_position = "
            "'start'), not network.clip_position",
        ),
        (
            f"{CACHED}\naugmentation.chain = ('speed',)",
            f"{UNCHANGED} (augmentation.chain = ()), not augmentation.chain",
        ),
        (
            f"{CACHED}\naugmentation.mixup_probability = 0.5",
            f"{UNCHANGED} (augmentation.mixup_probability = 0), not augmentation.mixup_probability",
        ),
        (
            f"{CACHED}\nvocoding.vocoders = ('lpc', 'my_vocoders.Rounded')",
            "front_end.cache_features only saves copies made by built-in vocoders, whose code is "
            "known, not by vocoding.vocoders",
        ),
        ("vocoding.vocoders = ('lpc', 'phase')\nvocoding.corpus_spoofs = False", ""),
        (
            "vocoding.corpus_spoofs = False",
            "vocoding.corpus_spoofs leaves no spoofs to train on, since no vocoder is named in "
            "vocoding.vocoders",
        ),
        (
            "augmentation.noise_snr_min_db = 30",
            "augmentation.noise_snr_min_db is above augmentation.noise_snr_max_db",
        ),
    ],
)
def test_contradictions(init: Write, runs: Write, text: str, message: str) -> None:
    init("rawboost.SNRmax = 40\ncomputing.gpu_ids = (3,)\nfront_end.frozen = True\n")
    runs(f"a\n{text}\n")
    if not message:
        Settings().read_configs("runs.py", ["a"])
        return
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs("runs.py", ["a"])
    where, _, said = str(caught.value).partition(": ")
    assert where in ("runs.py:2", "runs.py:3", "runs.py:4")
    assert VALUE.sub("", said) == message


VARIES = "repeats the same operations in each step, which vary with"


@pytest.mark.parametrize(
    ("line", "relation"),
    [
        ("computing.compile = True", "captures the network's operations, not the compiled ones of"),
        ("front_end.layer_drop = 0.1", VARIES),
        ("front_end.time_mask_proportion = 0.1", VARIES),
        ("front_end.channel_mask_proportion = 0.1", VARIES),
        ("front_end.dropout = 0.1", "cannot recompute layers that draw random numbers, as with"),
        ("lora.dropout = 0.1", "cannot recompute layers that draw random numbers, as with"),
    ],
)
def test_what_a_cuda_graph_cannot_repeat(runs: Write, line: str, relation: str) -> None:
    runs(
        f"a\nfront_end.gradient_checkpointing = True\n{line}\ncomputing.cuda_graphs = True\n"
        "lora.rank = 8\n"
    )
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs("runs.py", ["a"])
    graphs = "runs.py:4: computing.cuda_graphs = True (runs.py:4)"
    assert str(caught.value) == f"{graphs} {relation} {line} (runs.py:3)"
    # What is drawn in dropout alone is no contradiction.
    runs("a\nfront_end.dropout = 0.1\ncomputing.cuda_graphs = True\n")
    Settings().read_configs("runs.py", ["a"])


@pytest.mark.parametrize(
    ("line", "relation"),
    [
        ("network.global_minibatch_size = 8", "requires clips of one length and contradicts"),
        ("augmentation.mixup_probability = 0.5", "requires clips of one length and contradicts"),
        ("rawboost.on_device = True", "requires clips of one length and contradicts"),
        ("lengths.max_crop_s = 5.0", "is above"),
    ],
)
def test_what_minibatches_of_varying_length_cannot_be(runs, line, relation):
    runs(f"a\nrawboost.enabled = True\n{line}\nlengths.minibatch_s = 4.0\n")
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs("runs.py", ["a"])
    minibatch = "lengths.minibatch_s = 4.0 (runs.py:4)"
    assert f"{line} (runs.py:3) {relation} {minibatch}" in str(caught.value)


def test_a_contradiction_that_a_later_layer_settles_is_none(init: Write, runs: Write) -> None:
    init("rawboost.minF = 500\nrawboost.maxF = 400\n")
    Settings().read_configs(runs("a\nrawboost.maxF = 600\n"), ["a"])
    with pytest.raises(
        SettingsError,
        match=r"init.py:2: rawboost.minF = 500.0 \(init.py:1\) is above rawboost.maxF",
    ):
        Settings().snapshot()
