"""Audio language models: the values are those of transformers for the same recordings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError, UsageError
from asdf.interchange import build_pretrained, read_network
from asdf.networks.build import build_network
from asdf.networks.language_models.audio_language_model import TEXT_LOSS, AudioLanguageModel
from asdf.networks.language_models.families import FAMILIES
from asdf.networks.language_models.pretrained_language_model import tiny_config, tiny_words
from asdf.networks.language_models.rationale import NO_TOKEN
from asdf.settings.sections import Sections
from asdf.tasks.rationales.task import Rationales
from asdf.trials.trial_list import TrialList

VOXTRAL = {
    "model_type": "voxtral",
    "audio_token_id": 319,
    "audio_config": {
        "model_type": "voxtral_encoder",
        "hidden_size": 16,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_mel_bins": 128,
        "max_source_positions": 52,
    },
    "text_config": {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 320,
    },
}
FLAMINGO = {
    "model_type": "audioflamingo3",
    "audio_token_id": 319,
    "audio_config": {
        "model_type": "audioflamingo3_encoder",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_mel_bins": 128,
        "max_source_positions": 50,
    },
    "text_config": tiny_config()["text_config"],
}
CONFIGS = {"qwen2_audio": tiny_config(), "voxtral": VOXTRAL, "audioflamingo3": FLAMINGO}
MASKS = {"qwen2_audio": "feature_attention_mask", "audioflamingo3": "input_features_mask"}
SECOND = 16000


def settings_of(**language_model) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.AudioLanguageModel"
    settings.front_end.architecture = "tiny"
    settings.network.train_clip_size = SECOND
    for name, value in language_model.items():
        setattr(settings.language_model, name, value)
    return settings


def network_of(kind: str = "tiny", **language_model) -> AudioLanguageModel:
    settings = settings_of(**language_model)
    if kind != "tiny":
        settings.front_end.architecture = json.dumps(CONFIGS[kind])
    torch.manual_seed(0)
    network = build_network(settings)
    assert isinstance(network, AudioLanguageModel)
    # Random embeddings are so small that every answer would be as likely as the other.
    for parameter in network.parameters():
        if parameter.requires_grad and parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3)
    return network.eval()


def noise(utterances: int, samples: int, seed: int = 0) -> torch.Tensor:
    return 0.1 * torch.randn(utterances, samples, generator=torch.Generator().manual_seed(seed))


def given_to_transformers(
    network: AudioLanguageModel, kind: str, waveforms: torch.Tensor, text: str = ""
) -> dict[str, torch.Tensor]:
    """Return the inputs of transformers' own forward for recordings of one part each."""
    model = network.front_end.model
    seconds = network.front_end.part_samples / SECOND
    extractor = transformers.WhisperFeatureExtractor(feature_size=128)
    extractor.n_samples = round(seconds * SECOND)
    features = extractor(
        list(waveforms.numpy()),
        sampling_rate=SECOND,
        return_attention_mask=True,
        padding="max_length",
        max_length=extractor.n_samples,
        return_tensors="pt",
    )
    frames = int(features.attention_mask[0].sum())
    count = ((frames - 1) // 2 + 1 - 2) // 2 + 1
    if kind == "voxtral":
        count = 52 * 16 // 64
    encode = network.words.encode
    before, after = network.options.prompt.split("{audio}")
    audio = [model.config.audio_token_id] * count
    ids = [*encode(before), *audio, *encode(after), *(encode(text) if text else [])]
    inputs = {"input_ids": torch.tensor([ids] * len(waveforms))}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    inputs["input_features"] = features.input_features
    if kind in MASKS:
        inputs[MASKS[kind]] = features.attention_mask
    return inputs


@pytest.mark.parametrize("samples", [5000, 15999])
def test_features_are_those_of_transformers(samples):
    network = network_of()
    waveforms = noise(2, samples)
    theirs = given_to_transformers(network, "qwen2_audio", waveforms)["input_features"]
    padded = nn.functional.pad(waveforms, (0, SECOND - samples))
    torch.testing.assert_close(network.front_end.inputs(padded), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("samples", [9000, 16000])
@pytest.mark.parametrize("kind", FAMILIES)
def test_logits_and_embeddings_are_those_of_transformers(kind, samples):
    network = network_of(kind)
    waveforms = noise(2, samples)
    inputs = given_to_transformers(network, kind, waveforms)
    with torch.no_grad():
        outputs = network(waveforms)
        theirs = network.front_end.model(**inputs, output_hidden_states=True)
    spoof = network.words.encode("fake")
    bona_fide = network.words.encode("real")
    answers = theirs.logits[:, -1]
    expected = (answers[:, bona_fide] - answers[:, spoof])[:, 0]
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(outputs.logits_B2[:, 1], expected, rtol=1e-4, atol=1e-4)
    assert outputs.logits_B2[:, 0].tolist() == [0, 0]
    last = theirs.hidden_states[-1][:, -1]
    torch.testing.assert_close(outputs.embeddings, last, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", FAMILIES)
def test_generated_tokens_are_those_of_transformers(kind):
    network = network_of(kind, rationale_tokens=9)
    waveforms = noise(2, 12000)
    inputs = given_to_transformers(network, kind, waveforms)
    end = network.words.encode("<|im_end|>")[0]
    theirs = network.front_end.model.generate(
        **inputs, do_sample=False, max_new_tokens=9, eos_token_id=end, pad_token_id=end
    )[:, inputs["input_ids"].shape[1] :]
    (extra,) = [network.words.extra()]
    with torch.no_grad(), extra.requested(network):
        tokens = extra.of_outputs(network(waveforms)).long()
    assert not network.generates
    for row, expected in zip(tokens.tolist(), theirs.tolist(), strict=True):
        ended = end in expected
        said = expected[: expected.index(end)] if ended else expected
        assert row == [*said, *[NO_TOKEN] * (9 - len(said)), int(not ended)]


def test_a_text_ends_where_the_model_ends_it():
    network = network_of(rationale_tokens=6)
    end = network.words.encode("<|im_end|>")[0]
    head = network.front_end.model.lm_head
    with torch.no_grad():
        head.weight.zero_()
        # The likeliest token of any state that has a positive sum, and of one that has not.
        head.weight[end], head.weight[65] = 1, -1
    extra = network.words.extra()
    with torch.no_grad(), extra.requested(network):
        outputs = network(noise(4, 8000))
    for row, state in zip(extra.of_outputs(outputs), outputs.embeddings, strict=True):
        rationale = extra.describe(row.numpy(), 8000)
        if state.sum() > 0:
            assert (rationale.text, rationale.tokens, rationale.is_cut) == ("", 0, False)
        else:
            assert rationale.tokens > 0


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_loss_of_a_text_is_that_of_transformers(kind):
    network = network_of(kind, text_column="why")
    waveforms = noise(1, 12000)
    text = "fake: the vowels do not breathe"
    inputs = given_to_transformers(network, kind, waveforms, f"{text}<|im_end|>")
    labels = inputs["input_ids"].clone()
    labels[:, : -len(network.words.encode(text)) - 1] = -100
    theirs = network.front_end.model(**inputs, labels=labels).loss
    others = noise(1, 12000, seed=1)
    both = torch.cat([waveforms, others, others])
    texts = {"why": [text, "", "real"]}
    outputs = network(both, columns=texts)
    losses = outputs.extras[TEXT_LOSS]
    torch.testing.assert_close(losses[0], theirs, rtol=1e-4, atol=1e-4)
    assert losses[1] == 0 and losses[2] > 0
    # Text and score begin at the same token, and neither changes the other.
    plain = network(both)
    torch.testing.assert_close(outputs.logits_B2, plain.logits_B2, rtol=1e-5, atol=1e-5)
    assert plain.extras == {}
    # The first tokens alone.
    network.options.text_tokens = 3
    cut = network(waveforms, columns={"why": [text]}).extras[TEXT_LOSS]
    logits = network.front_end.model(**inputs).logits[0]
    tokens = network.words.encode(text)[:3]
    start = len(labels[0]) - len(network.words.encode(text)) - 2
    expected = nn.functional.cross_entropy(logits[start : start + 3], torch.tensor(tokens))
    torch.testing.assert_close(cut[0], expected, rtol=1e-4, atol=1e-4)


def test_a_longer_recording_is_heard_in_parts_whose_tokens_follow_one_another():
    network = network_of()
    waveforms = noise(2, 40000)
    heard, mask = network.front_end.hear(waveforms)
    assert mask is None
    parts = [network.front_end.hear(part)[0] for part in waveforms.split(16000, dim=1)]
    assert [part.shape[1] for part in parts] == [25, 25, 12]
    torch.testing.assert_close(heard, torch.cat(parts, dim=1), rtol=1e-5, atol=1e-5)
    # All of it counts.
    changed = waveforms.clone()
    changed[:, 39000:] *= -3
    assert not torch.allclose(network(waveforms).logits_B2, network(changed).logits_B2)


@pytest.mark.parametrize("pooling", ["last", "audio"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_padded_recording_is_what_it_is_alone(kind, pooling):
    network = network_of(kind, pooling=pooling)
    short, long = noise(1, 14000), noise(1, 40000, seed=1)
    # Whatever stands in the padding.
    padded = torch.cat([short, torch.ones(1, 26000)], dim=1)
    with torch.no_grad():
        together = network(torch.cat([padded, long]), lengths=torch.tensor([14000, 40000]))
        for row, alone in enumerate([short, long]):
            expected = network(alone)
            for ours, theirs in zip(together, expected, strict=True):
                torch.testing.assert_close(ours[row], theirs[0], rtol=1e-4, atol=1e-4)


def test_the_embedding_may_be_the_mean_over_the_recording():
    network = network_of(pooling="audio")
    waveforms = noise(1, 16000)
    inputs = given_to_transformers(network, "qwen2_audio", waveforms)
    states = network.front_end.model(**inputs, output_hidden_states=True).hidden_states[-1]
    of_audio = inputs["input_ids"][0] == network.front_end.model.config.audio_token_id
    expected = states[0, of_audio].mean(0)
    embeddings = network(waveforms).embeddings
    torch.testing.assert_close(embeddings[0], expected, rtol=1e-4, atol=1e-4)


def test_a_very_short_recording_is_repeated():
    network = network_of()
    short = noise(1, 150)
    torch.testing.assert_close(network(short)[1], network(short.repeat(1, 3)[:, :400])[1])


def test_an_answer_is_one_token():
    settings = settings_of()
    words = tiny_words(settings.language_model)
    network = network_of(bona_fide_answer="real", spoof_answer="fake")
    network.options.bona_fide_answer = "yes"
    with pytest.raises(UsageError, match=r"bona_fide_answer = 'yes' is 3 tokens .*'y', 'e', 's'"):
        network.read_words(words)
    network.options.bona_fide_answer = "fake"
    with pytest.raises(UsageError, match="are both 'fake'"):
        network.read_words(words)
    with pytest.raises(UsageError, match=r"'\{audio\}' 2 times"):
        network_of(prompt="{audio}{audio}?")


def test_what_learns_follows_from_the_settings():
    settings = settings_of()
    settings.front_end.frozen = True
    network = build_network(settings).train()
    learning = {name for name, each in network.named_parameters() if each.requires_grad}
    tower = "front_end.model.model.audio_tower."
    assert learning and not any(name.startswith(tower) for name in learning)
    assert "front_end.model.lm_head.weight" in learning
    assert not network.front_end.tower.training and network.front_end.model.lm_head.training
    settings = settings_of()
    settings.lora.rank = 2
    settings.lora.targets = ("*language_model*.q_proj", "*multi_modal_projector.linear")
    network = build_network(settings).train()
    learning = [name for name, each in network.named_parameters() if each.requires_grad]
    # Two tensors of each of two layers, and of the map between tower and language model.
    assert len(learning) == 6 and all("lora_" in name for name in learning)
    settings.lora.targets = ("*.no_such_map",)
    with pytest.raises(UsageError, match=r"no linear map '\*.no_such_map'"):
        build_network(settings)
    for name in ("adapter.width", "prompt.tokens", "front_end.layer_drop"):
        settings = settings_of()
        section, _, entry = name.partition(".")
        setattr(getattr(settings, section), entry, 1)
        with pytest.raises(UsageError, match=f"^{name} does not apply to"):
            build_network(settings)


def write_folder(folder: Path, network: AudioLanguageModel) -> Path:
    """Write a folder as of the hub, by transformers itself."""
    network.front_end.model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(network.words.text)
    return folder


@pytest.mark.parametrize("kind", FAMILIES)
def test_weights_and_words_are_those_of_a_folder(kind, tmp_path):
    network = network_of(kind)
    folder = write_folder(tmp_path / "model", network)
    settings = settings_of()
    settings.front_end.weights = str(folder)
    settings.lora.rank = 2
    built = build_pretrained(settings).eval()
    waveforms = noise(2, 8000)
    with torch.no_grad():
        torch.testing.assert_close(built(waveforms)[1], network(waveforms)[1], rtol=0, atol=0)
    # A network file has all of it, also where the folder is gone.
    write_network_file(tmp_path / "network.pt", NetworkFile.from_network(built, settings))
    read, _ = read_network(tmp_path / "network.pt", base=str(folder))
    with torch.no_grad():
        torch.testing.assert_close(read(waveforms)[1], built(waveforms)[1], rtol=1e-5, atol=1e-5)
    assert read.words.text == network.words.text


def test_the_names_of_published_files_are_known(tmp_path):
    network = network_of()
    folder = write_folder(tmp_path / "model", network)
    state = network.front_end.model.state_dict()
    published = {}
    for name, tensor in state.items():
        name = name.removeprefix("model.")
        name = re.sub(r"^language_model\.", "language_model.model.", name)
        name = name.replace("lm_head.", "language_model.lm_head.")
        published[name] = tensor.clone().to(torch.float16)
    assert "language_model.lm_head.weight" in published
    (folder / "model.safetensors").unlink()
    save_file(published, folder / "model.safetensors")
    settings = settings_of()
    settings.front_end.weights = str(folder)
    built = build_pretrained(settings)
    for name, tensor in built.front_end.model.state_dict().items():
        assert torch.equal(tensor, state[name].half().float()), name
    # A layer that the file lacks is no random number.
    del published["multi_modal_projector.linear.bias"]
    save_file(published, folder / "model.safetensors")
    with pytest.raises(AsdfError, match=r"multi_modal_projector\.linear\.bias"):
        build_pretrained(settings)


def test_a_repository_of_the_hub_gives_its_words_and_no_code(hub, tmp_path):
    network = network_of()
    folder = write_folder(tmp_path / "model", network)
    (folder / "modeling_own.py").write_text("raise RuntimeError('executed')")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling_own.Own"}
    (folder / "config.json").write_text(json.dumps(config))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    commit = hub.repository("org/alm").commit(files)
    settings = settings_of()
    settings.front_end.weights = "org/alm"
    built = build_pretrained(settings).eval()
    waveforms = noise(1, 8000)
    assert torch.equal(built(waveforms)[1], network(waveforms)[1])
    assert built.front_end.pretrained == f"hub:org/alm@{commit}"
    fetched = " ".join(path for _, path, _ in hub.contents())
    assert "tokenizer.json" in fetched and "modeling_own.py" not in fetched


def test_a_network_file_needs_no_other_file(tmp_path):
    network = network_of(rationale_tokens=5)
    settings = settings_of(rationale_tokens=5)
    settings.network.min_evaluation_utterance_length_in_samples = 4000
    path = tmp_path / "network.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    read, file = read_network(path)
    assert read.words.text == network.words.text
    assert file.heads["rationale"]["tokenizer"] == network.words.text
    detector = asdf.Detector(path, "cpu")
    recording = noise(1, 12000)[0].numpy()
    score = detector.score(recording, SECOND, rationale=True)
    with torch.no_grad():
        logits = network(noise(1, 12000)).logits_B2[0]
    assert float(score) == pytest.approx(float(logits[1]), abs=1e-4)
    assert score.rationale.tokens <= 5
    content = torch.load(path, weights_only=True)
    content["heads"]["rationale"]["tokenizer"] = "{}"
    torch.save(content, path)
    with pytest.raises(AsdfError, match=r"it is not a tokenizer\.json"):
        read_network(path)


def test_a_folder_without_a_tokenizer_or_of_another_model_is_refused(tmp_path):
    folder = write_folder(tmp_path / "model", network_of())
    settings = settings_of()
    settings.front_end.weights = str(folder)
    settings.language_model.bona_fide_answer = "genuine"
    with pytest.raises(UsageError, match="bona_fide_answer = 'genuine' is 7 tokens"):
        build_pretrained(settings)
    settings.language_model.bona_fide_answer = "real"
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(AsdfError, match=r"it is not a tokenizer\.json"):
        build_pretrained(settings)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(AsdfError, match=r"tokenizer\.json is missing"):
        build_pretrained(settings)
    (folder / "config.json").write_text('{"model_type": "hubert"}')
    with pytest.raises(UsageError, match="'hubert' is not an audio language model"):
        build_pretrained(settings)


def test_without_its_weights_it_says_so():
    settings = settings_of()
    settings.front_end.weights = "model"
    network = build_network(settings)
    with pytest.raises(AsdfError, match=r"front_end\.weights = 'model' are not loaded"):
        network(noise(1, 8000))
    with pytest.raises(AsdfError, match="tokenizer of the language model is not loaded"):
        network.words.encode("real")


def test_the_task_of_texts_refuses_what_it_cannot_learn():
    labels = [1, 0, 0]
    network = network_of(text_column="why")
    settings = settings_of(text_column="why")
    ids = ("a", "b", "c")
    listed = TrialList(ids, labels, columns={"why": ["real", "", "fake"]}, name="train")
    term = Rationales(settings).build_term(network, listed, None)
    targets = term.targets_of([(1, 2), (1, 1)])
    assert term.counts(targets).tolist() == [1, 0] and term.weight == 1
    with pytest.raises(UsageError, match=r"no such column\. It has: attack"):
        other = TrialList(ids, labels, columns={"attack": ["", "A1", "A2"]}, name="train")
        Rationales(settings).build_term(network, other, None)
    with pytest.raises(UsageError, match="no utterance of the training list has a text"):
        empty = TrialList(ids, labels, columns={"why": ["", "", ""]}, name="train")
        Rationales(settings).build_term(network, empty, None)
    with pytest.raises(UsageError, match="is not an audio language model and cannot learn texts"):
        Rationales(settings).build_term(nn.Linear(2, 2), listed, None)
    assert not Rationales(settings_of()).is_requested


def test_windows_have_the_text_of_the_one_with_the_lowest_score(tmp_path):
    network = network_of(rationale_tokens=4)
    settings = settings_of(rationale_tokens=4)
    settings.network.min_evaluation_utterance_length_in_samples = 8000
    settings.network.max_evaluation_utterance_length_in_samples = 8000
    path = tmp_path / "network.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    detector = asdf.Detector(path, "cpu")
    recording = noise(1, 24000)[0].numpy()
    whole = detector.score_whole(recording, SECOND, rationale=True)
    start = round(whole.lowest.start_s * SECOND)
    lowest = detector.score(recording[start : start + 8000], SECOND, rationale=True)
    assert whole.windows == 3 and whole.rationale == lowest.rationale


def test_a_graph_of_it_is_refused_in_words(tmp_path, capsys):
    network = network_of()
    path = tmp_path / "network.pt"
    write_network_file(path, NetworkFile.from_network(network, settings_of()))
    assert main(["export", str(path), str(tmp_path / "out.pt"), "--format", "torchscript"]) == 1
    assert "an audio language model cannot be exported as a graph" in capsys.readouterr().err
    assert not (tmp_path / "out.pt").exists()


def test_a_list_of_trials_has_the_scores_of_the_detector(tmp_path):
    """The scores of several recordings together are those of each by itself."""
    network = network_of(rationale_tokens=4)
    settings = settings_of(rationale_tokens=4)
    path = tmp_path / "network.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    detector = asdf.Detector(path, "cpu")
    recordings = [(noise(1, samples, samples)[0].numpy(), SECOND) for samples in (64600, 70000)]
    together = sorted(detector.score_many(recordings, rationale=True), key=lambda each: each.index)
    for result, recording in zip(together, recordings, strict=True):
        alone = detector.score(*recording, rationale=True)
        assert result.score == pytest.approx(float(alone), abs=1e-5)
        assert result.rationale == alone.rationale
        assert result.entry()["rationale"]["note"].endswith("not evidence")
