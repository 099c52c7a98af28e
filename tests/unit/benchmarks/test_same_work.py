"""What a benchmark compares does the same work: both sides of it give the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.rawboost import boost, draw
from asdf.data.datasets import TrainingClips, WholeUtterances
from asdf.distributed.world import World
from asdf.evaluation import eer
from asdf.networks.front_ends.architectures import Architecture
from asdf.training.training_progress import seed_step
from benchmarks import cpu_scoring, frozen, hugging_face, loader, metrics, nets, rawboost, scoring
from benchmarks.corpus import temporary_corpus
from benchmarks.harness import has


@pytest.mark.parametrize("algo", range(1, 9))
def test_rawboost_equals_the_published_formulas(algo: int) -> None:
    settings = replace(rawboost.ALWAYS, algo=algo)
    waveform = (0.3 * np.random.default_rng(1).standard_normal(9000)).astype(np.float32)
    draws = draw(9000, settings, np.random.default_rng(algo))
    published = rawboost.published(waveform, draws, settings)
    assert np.abs(published - waveform).max() > 1e-3
    assert_allclose(boost(waveform, draws, settings), published, atol=1e-4)


def test_eers_are_the_same() -> None:
    scores = metrics.make_scores(3000)
    own = eer(scores.bona_fide, scores.spoof)[0]
    assert 0.03 < own < 0.07
    assert metrics.sorted_eer(scores.bona_fide, scores.spoof) == own
    assert metrics.looped_eer(scores.bona_fide, scores.spoof) == own


def test_naive_bootstrap_draws_around_the_eer() -> None:
    scores = metrics.make_scores(3000)
    drawn = metrics.naive_bootstrap(scores.bona_fide, scores.spoof, 40, np.random.default_rng(0))
    assert len(set(drawn)) > 10
    assert np.mean(drawn) == pytest.approx(eer(scores.bona_fide, scores.spoof)[0], abs=0.01)


def clips_of(corpus, samples: int, settings) -> TrainingClips:
    parts = (settings.rawboost, settings.sad)
    words = (corpus.utterances, corpus.lengths, samples, *parts)
    return TrainingClips(*words, seed=0, position="start")


def test_datasets_give_the_same_clips_of_short_recordings() -> None:
    with temporary_corpus(3, 1.5) as corpus:
        field = loader.FieldDataset([str(path) for path in corpus.paths])
        clips = clips_of(corpus, loader.SAMPLES, nets.make_settings("tiny", 2))
        for index in range(3):
            assert_array_equal(field[index][0].numpy(), clips[1, index].samples)


def test_temporary_corpus_has_the_durations_it_says() -> None:
    with temporary_corpus(40) as corpus:
        frames = [soundfile.info(path).frames for path in corpus.paths]
        sizes = sum(path.stat().st_size for path in corpus.paths)
        assert_array_equal(frames, corpus.lengths)
        assert 2 * 16000 < np.median(frames) < 4 * 16000
        assert 0.3 < sizes / (2 * sum(frames)) < 0.9
    assert not corpus.utterances.folder.exists()


def test_cut_or_tile() -> None:
    assert_array_equal(loader.cut_or_tile(np.arange(3), 7), [0, 1, 2, 0, 1, 2, 0])
    assert_array_equal(loader.cut_or_tile(np.arange(9), 4), [0, 1, 2, 3])


def test_the_plain_loop_takes_the_same_steps() -> None:
    settings = nets.make_settings("tiny", 4, samples=6000)
    settings.network.initial_learning_rate = 1e-3
    batch = nets.make_batch(4, 6000)
    asdf = nets.AsdfSteps(settings, nets.make_network(settings), *batch)
    plain = nets.PlainSteps(settings, nets.make_network(settings), *batch)
    losses = []
    for number in range(3):
        own = asdf()
        seed_step(settings.recipe.seed, number, 1, 0)  # the dropout of ASDF's step
        losses.append((own, plain()))
    assert len({own for own, _ in losses}) == 3
    for own, other in losses:
        assert own == pytest.approx(other, rel=1e-4)


def test_scoring_one_at_a_time_gives_the_same_scores() -> None:
    settings = nets.make_settings(Architecture.from_text("tiny").to_text(), 4)
    settings.computing.network_dataloader_workers = 0
    settings.network.min_evaluation_utterance_length_in_samples = 400
    network = nets.make_network(settings).eval()
    with temporary_corpus(4, 1.0) as corpus_of_4:
        lists = (corpus_of_4.utterances, corpus_of_4.lengths)
        ways = scoring.scoring_ways(network, *lists, settings, torch.device("cpu"))
        scores = {name: way() for name, way in ways.items()}
    assert_allclose(scores["asdf"], scores["single"], atol=1e-5)
    assert len(set(scores["single"].tolist())) == 4
    assert np.abs(scores["fixed"] - scores["single"]).max() > 1e-5


def test_cached_features_train_as_computed_ones_do() -> None:
    settings = nets.make_settings("tiny", 2, samples=6000)
    settings.front_end.frozen, settings.network.clip_position = True, "start"
    settings.computing.network_dataloader_workers = 0
    network = nets.make_network(settings)
    world = World()
    with temporary_corpus(4, 0.5) as corpus:
        clips = clips_of(corpus, 6000, settings)
        folder = corpus.utterances.folder
        cached = frozen.cache_features(network, clips, corpus, settings, world, folder)
        losses = []
        for items in (cached, clips):
            network.load_state_dict(nets.make_network(settings).state_dict())
            words = (network, items, corpus, settings, world)
            losses.append(frozen.epochs(*words, from_features=items is cached)())
    # Features cached in float16 differ by 2^-11 of themselves at most, losses by some times that.
    assert losses[0] == pytest.approx(losses[1], rel=20 * 2**-11)


def test_transformers_network_has_the_sizes_of_ours() -> None:
    pytest.importorskip("transformers")
    settings = nets.make_settings("tiny", 2, samples=6000)
    peer = hugging_face.TransformersDetector(Architecture.from_text("tiny"))
    own = nets.make_network(settings)
    unused = getattr(peer.front_end, "masked_spec_embed", torch.empty(0)).numel()
    sizes = [sum(p.numel() for p in each.parameters()) for each in (peer, own)]
    assert sizes[0] - unused == sizes[1]
    waveforms, labels = nets.make_batch(2, 6000)
    assert peer(waveforms, labels)["logits"].shape == own(waveforms)[1].shape == (2, 2)


@pytest.mark.parametrize("peer", cpu_scoring.PEERS)
@pytest.mark.parametrize("samples", [16000, None])
def test_peers_on_a_cpu_give_the_same_scores(peer: str, samples: int | None) -> None:
    make, packages = cpu_scoring.PEERS[peer]
    if not has(*packages):
        pytest.skip(f"{peer} is not installed")
    network = nets.make_network(nets.make_settings("tiny", 2)).eval()
    run = make(network, samples)
    # The first length is the one that a graph of any length is made with.
    for length in [samples] if samples else [16000, 9001, 20011]:
        waveforms, _ = nets.make_batch(1, length)
        with torch.inference_mode():
            logits = network(waveforms)[1]
        assert_allclose(run(waveforms.numpy()), logits, atol=1e-5)


def test_whole_utterances_are_what_single_scoring_reads() -> None:
    with temporary_corpus(2, 0.5) as corpus:
        whole = WholeUtterances(corpus.utterances, nets.make_settings("tiny", 2).sad)
        samples, _ = soundfile.read(corpus.paths[0], dtype="float32")
        assert_array_equal(whole[0, int(corpus.lengths[0])].samples, samples)
