"""Settings that contradict each other: reported with the location of each."""

from __future__ import annotations

import pytest

from asdf.settings import Settings, SettingsError

from .conftest import Write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rawboost.SNRmin = 50",
            "rawboost.SNRmin = 50.0 (runs.py:2) is above rawboost.SNRmax = 40.0 (init.py:1)",
        ),
        (
            "rawboost.minG = 1",
            "rawboost.minG = 1.0 (runs.py:2) is above rawboost.maxG = 0 (default)",
        ),
        (
            "network.max_evaluation_utterance_length_in_samples = 8000",
            "network.min_evaluation_utterance_length_in_samples = 16000 (default) is above "
            "network.max_evaluation_utterance_length_in_samples = 8000 (runs.py:2)",
        ),
        (
            "network.min_learning_rate = 1.0",
            "network.min_learning_rate = 1.0 (runs.py:2) is above network.initial_learning_rate = "
            "0.1 (default)",
        ),
        ("recipe.end_stage = -0", ""),
        ("network.score = 'llr'", ""),
        ("network.score = 'llr'\nnetwork.loss = 'focal'\nrecipe.start_stage = 2", ""),
        (
            "network.score = 'llr'\nnetwork.loss = 'focal'",
            "network.score = 'llr' (runs.py:2) needs probabilities learnt by plain cross_entropy, "
            "not by network.loss = 'focal' (runs.py:3)",
        ),
        (
            "network.score = 'llr'\nloss.label_smoothing = 0.1",
            "network.score = 'llr' (runs.py:2) needs probabilities learnt by plain cross_entropy, "
            "not by loss.label_smoothing = 0.1 (runs.py:3)",
        ),
        (
            "recipe.start_stage = 101",
            "recipe.start_stage = 101 (runs.py:2) is above recipe.end_stage = 100 (default)",
        ),
        ("computing.gpu_ids = (0, 1)", ""),
        (
            "computing.processes = 2",
            "computing.processes = 2 (runs.py:2) is more than the number of GPUs in "
            "computing.gpu_ids = (3,) (init.py:2)",
        ),
        ("computing.processes = 2\ncomputing.use_gpu = False", ""),
        ("computing.processes = 2\ncomputing.gpu_ids = None", ""),
        (
            "computing.compile = True\ncomputing.deterministic = True",
            "computing.deterministic = True (runs.py:3) excludes kernels chosen by measured speed, "
            "as by computing.compile = True (runs.py:2)",
        ),
        (
            "computing.compile = 'layers'\ncomputing.norms = 'bf16'",
            "computing.compile = 'layers' (runs.py:2) fuses norms with what follows them itself "
            "and cannot be combined with computing.norms = 'bf16' (runs.py:3)",
        ),
        ("rawboost.minBW = 2000\nrawboost.maxBW = 2000", ""),
        (
            "front_end.unfreeze_after_epochs = 2",
            "front_end.frozen = True (init.py:3) never trains the front end and contradicts "
            "front_end.unfreeze_after_epochs = 2 (runs.py:2)",
        ),
        (
            "lora.rank = 8",
            "front_end.frozen = True (init.py:3) trains nothing of the front end and contradicts "
            "lora.rank = 8 (runs.py:2)",
        ),
        (
            "network.save_only_trained = True",
            "network.save_only_trained = True (runs.py:2) omits parameters that pretrained weights "
            "restore, and there are none in front_end.weights = None (default)",
        ),
        (
            "front_end.trained_parts = ('norms',)",
            "front_end.frozen = True (init.py:3) trains nothing of the front end and contradicts "
            "front_end.trained_parts = ('norms',) (runs.py:2)",
        ),
        (
            "network.network_class = 'asdf.networks.SSL_SLS'",
            "network.network_class = 'asdf.networks.SSL_SLS' (runs.py:2) takes clips of "
            "back_end.sls_samples = "
            "64600 only, not of network.train_clip_size = 16000 (default)",
        ),
        ("network.network_class = 'asdf.networks.SSL_SLS'\nnetwork.train_clip_size = 64600", ""),
        ("network.network_class = 'asdf.networks.SSL_SLS'\nrecipe.start_stage = 2", ""),
        (
            "augmentation.chain = ('speed', 'noise')",
            "augmentation.chain = ('speed', 'noise') (runs.py:2) includes 'noise', which cannot be "
            "used with augmentation.noise_folders = () (default)",
        ),
        ("augmentation.chain = ('speed', 'codec')", ""),
        (
            "front_end.cache_features = True\nnetwork.clip_position = 'start'\n"
            "vocoding.vocoders = ('lpc', 'phase')",
            "",
        ),
        (
            "vocoding.vocoders = ('lpc', 'my_vocoders.Rounded')\n"
            "front_end.cache_features = True\nnetwork.clip_position = 'start'",
            "front_end.cache_features = True (runs.py:3) only saves copies made by built-in "
            "vocoders, whose code is known, not by vocoding.vocoders = ('lpc', "
            "'my_vocoders.Rounded') (runs.py:2)",
        ),
        ("vocoding.vocoders = ('lpc', 'phase')\nvocoding.corpus_spoofs = False", ""),
        (
            "vocoding.corpus_spoofs = False",
            "vocoding.corpus_spoofs = False (runs.py:2) leaves no spoofs to train on, since no "
            "vocoder is named in vocoding.vocoders = () (default)",
        ),
        (
            "augmentation.chain = ('reverberation',)\naugmentation.reverberation_folders = "
            "('RIRS_NOISES',)",
            "",
        ),
        (
            "augmentation.noise_snr_min_db = 30",
            "augmentation.noise_snr_min_db = 30.0 (runs.py:2) is above "
            "augmentation.noise_snr_max_db = 20.0 (default)",
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
    line = 3 if "runs.py:3" in message else 2
    assert str(caught.value) == f"runs.py:{line}: {message}"


VARIES = "repeats the same operations in each step, which vary with"


@pytest.mark.parametrize(
    ("line", "relation"),
    [
        ("computing.compile = True", "captures the network's operations, not the compiled ones of"),
        ("computing.processes = 2", "requires one process and cannot be combined with"),
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


def test_a_cuda_graph_may_draw_in_dropout(runs: Write) -> None:
    Settings().read_configs(
        runs("a\nfront_end.dropout = 0.1\ncomputing.cuda_graphs = True\n"), ["a"]
    )


def test_a_contradiction_that_a_later_layer_settles_is_none(init: Write, runs: Write) -> None:
    init("rawboost.minF = 500\nrawboost.maxF = 400\n")
    Settings().read_configs(runs("a\nrawboost.maxF = 600\n"), ["a"])
    with pytest.raises(
        SettingsError,
        match=r"init.py:2: rawboost.minF = 500.0 \(init.py:1\) is above rawboost.maxF",
    ):
        Settings().snapshot()
