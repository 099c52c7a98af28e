"""The whole recipe in a debug size: what it writes, and that a seed gives the same numbers."""

import json
import re
import shutil

import pytest
import torch

from asdf.data.lengths import digest_list, digest_recordings
from asdf.evaluation import eer
from asdf.extras.cpu.packed_weights import is_available
from asdf.interchange import network_digest
from asdf.runs.files import sha256_of
from asdf.settings import Settings
from asdf.trials.lists import read_list


def described(corpus, name):
    utterances = read_list(corpus / f"{name}_list.txt", corpus, name)
    return {"list": digest_list(utterances), "recordings": digest_recordings(utterances)}


def test_all_stages_write_what_they_say(recipe, corpus, capsys):
    outcome = recipe.call(capsys, "debug", "recipe.seed=5").ok()
    system = recipe.system()
    names = sorted(path.name for path in (system / "networks").glob("*.pt"))
    assert names == ["epoch.1.pt", "epoch.2.pt", "epoch.3.pt"]
    lines = (system / "scores" / "epoch.3" / "demo-eval.txt").read_text().splitlines()
    listed = (corpus / "eval_list.txt").read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == listed
    for name, count in (("demo-dev", 8), ("demo-eval", 8)):
        assert len(recipe.scores(name, "epoch.3")) == count
        entry = (system / "scores" / "epoch.3" / f"{name}.scored.json").read_text()
        assert json.loads(entry) == {
            "network": network_digest(system / "networks" / "epoch.3.pt"),
            "trials": count,
            "min_samples": 4000,
            "max_samples": 1000000,
            "precision": "fp32",
            "engine": "packed" if is_available() else "plain",
            "sha256": {".txt": sha256_of(system / "scores" / "epoch.3" / f"{name}.txt")},
            "recordings": described(corpus, name.removeprefix("demo-")),
        }
    dev = recipe.scores("demo-dev", "epoch.3")
    assert f"{100 * eer(dev.bona_fide, dev.spoof)[0]:.3f}" in outcome.output
    for row in recipe.results():
        assert row["scored_length"] == {"min_samples": 4000, "max_samples": 1_000_000}
    metrics = (system / "metrics.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in metrics]
    assert kinds.count("evaluation") == 3 and kinds[-1] == "end"
    # 26 utterances in minibatches of 4: 7 steps per epoch, 21 in all, every second one printed.
    assert kinds.count("step") == 10
    assert not (system / "owner.lock").exists()
    assert not list(system.rglob("*.part"))
    (record,) = json.loads((system / "environment.json").read_text())
    assert record["versions"]["torch"] in torch.__version__
    assert "debug" in record["command"] and record["devices"] and record["host"]
    # After a config the settings are what init_config.py made them; those of the run load again.
    assert Settings().network.max_epochs == 1000
    saved = Settings(system / "settings.py")
    assert (saved.recipe.seed, saved.network.max_epochs) == (5, 3)
    assert saved.network.network_class == "small_networks.Plain"


def test_stage_3_says_which_scores_are_of_a_replaced_network(trained, capsys):
    again = ("debug", "network.max_epochs=1", "recipe.start_stage=3")
    assert "replaced" not in trained.call(capsys, *again).output
    path = trained.system() / "networks" / "epoch.1.pt"
    content = torch.load(path, weights_only=True)
    content["model_state_dict"]["output.bias"] += 1
    torch.save(content, path)
    outcome = trained.call(capsys, *again).ok()
    scores = trained.system() / "scores" / "epoch.1" / "demo-eval.txt"
    assert f"warning: the scores in {scores} are not of the present epoch.1.pt" in outcome.output
    assert outcome.output.count("which was replaced after them") == 2
    # Stage 2 scores them anew.
    again = (*again[:2], "recipe.start_stage=2")
    assert "replaced" not in trained.call(capsys, *again).output


def test_stage_3_says_whether_a_set_changed(trained, corpus, tmp_path, capsys):
    own = shutil.copytree(corpus, tmp_path / "corpus")
    words = ("debug", "network.max_epochs=1", f"paths.database_folder={own}")
    again = (*words, "recipe.start_stage=3")
    scores = trained.system() / "scores" / "epoch.1" / "demo-eval.txt"
    path = own / "eval_list.txt"
    listed = path.read_text()
    added = (own / "train_list.txt").read_text().splitlines()[0]
    lists = {listed: "", f"{listed}{added}\n": "list", listed[: listed.rindex("LA/")]: "list"}
    for text, changed in lists.items():
        path.write_text(text)
        check_changed(trained.call(capsys, *again).ok(), scores, changed)
    path.write_text(listed)
    # Two recordings get each other's name.
    first, second = (own / line.rpartition(" ")[0] for line in listed.splitlines()[:2])
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    check_changed(trained.call(capsys, *again).ok(), scores, "recordings")
    path.unlink()
    check_changed(trained.call(capsys, *again).ok(), scores, "")


def check_changed(outcome, scores, changed):
    said = f"warning: the {changed} of demo-eval changed after it was scored into {scores}"
    assert (said in outcome.output) == bool(changed)
    assert outcome.output.count("changed after") == bool(changed)


@pytest.mark.slow
def test_what_the_main_rank_compares_in_a_report_keeps_no_rank_waiting(recipe):
    words = ("debug", "network.max_epochs=1")
    recipe.run(*words, processes=2).ok()
    file = recipe.folder / "run.py"
    # A report before the scores are made anew, in a recipe of one's own.
    of_scores = "            run.stage(2, score)\n"
    folder = "run.folders.layout.system"
    removed = f"            for path in {folder}.rglob('demo-dev.txt'): path.unlink(True)\n"
    report = "            run.stage(3, report, main_only=True)\n"
    text = file.read_text()
    assert of_scores in text and report in text
    file.write_text(text.replace(report, "").replace(of_scores, report + removed + of_scores))
    recipe.run(*words, processes=2).ok()
    assert len(recipe.scores()) == 8


@pytest.mark.usefixtures("bfloat16")
def test_the_precision_of_scores_is_next_to_each_eer(recipe, capsys):
    quick = "computing.scoring_precision=bf16"
    outcome = recipe.call(capsys, "debug", quick, "network.max_epochs=1", "recipe.end_stage=2").ok()
    assert re.search(r"\nscoring in bf16(: this CPU .* emulated.*)?\n", outcome.output)
    # One validation, and two evaluation sets.
    said = re.findall(r"epoch\.1 on demo-\w+: EER \d+\.\d{3} %(.*), in bf16\n", outcome.output)
    assert len(said) == 3 and said[1:] == ["", ""] and re.fullmatch(r", loss \d\.\d{4}", said[0])
    system = recipe.system()
    [evaluation] = recipe.evaluations()
    assert evaluation["scoring_precision"] == "bf16"
    outcome = recipe.call(capsys, "debug", "network.max_epochs=2", "recipe.end_stage=1")
    assert "'bf16' so far, from here on 'fp32'" in outcome.output
    words = ("debug", "recipe.start_stage=3", "recipe.selected_epochs=(1,)")
    outcome = recipe.call(capsys, *words).ok()
    assert outcome.output.count("whole, up to 62.5 s, in bf16\n") == 2
    assert [row["scoring_precision"] for row in recipe.results()] == ["bf16", "bf16"]
    page = (system / "results" / "report.html").read_text()
    assert page.count("whole, up to 62.5 s, in bf16") == 4
    # And once in the overview for each set, in a cell with its interval.
    assert page.count(', in bf16<span class="interval">') == 2
    assert "Scored in" in page


@pytest.mark.slow
def test_same_seed_same_network_other_seed_other(recipe, capsys):
    networks = []
    for seed, system in ((1, "a"), (1, "b"), (2, "c")):
        words = (f"recipe.seed={seed}", f"paths.system_folder={system}", "recipe.end_stage=1")
        recipe.call(capsys, "normed", *words)
        networks.append(recipe.load("epoch.3", system)["model_state_dict"])
    same = [torch.equal(networks[0][name], networks[1][name]) for name in networks[0]]
    other = [torch.equal(networks[0][name], networks[2][name]) for name in networks[0]]
    assert all(same) and not all(other)


PLAIN = ("network.initial_learning_rate=0.05", "network.class_weights=(0.1, 0.9)")
WAV2VEC = (
    # A back end that chooses nothing: of two equal nodes AASIST drops the one that the last bit
    # says, which is another training from that step on.
    "network.network_class=asdf.networks.SSL_ASP",
    "front_end.architecture=tiny",
    "network.optimizer=adamw",
    "network.schedule=cosine",
    "network.warmup_steps=3",
    "network.gradient_clip_norm=1.0",
    "rawboost.enabled=True",
    "network.initial_learning_rate=0.0001",
)


RECORDED_PLAIN = """
0.7244553 0.6310983 0.5374292 0.4166302 0.2427440 2.1849745 0.1420641
0.3410039 0.6067384 0.3416183 0.2223588 0.5678940 0.3105745 0.1785249
"""
RECORDED_WAV2VEC = """
0.6477204 0.6400902 0.6958800 0.6336717 0.5903434 0.7128107 0.8905327
0.7073688 0.6836657 0.7621049 0.6460329 0.6779775 0.6799819 0.6495296
"""


@pytest.mark.parametrize(
    ("options", "recorded"),
    [(PLAIN, RECORDED_PLAIN), (WAV2VEC, RECORDED_WAV2VEC)],
    ids=["plain", "wav2vec"],
)
def test_recorded_losses(recipe, capsys, options, recorded):
    """A refactoring of the training must not change these losses of the first 14 steps.

    The tolerance is arithmetic's: a loss comes of some 1,000 roundings in a row by 2^-24 of a
    magnitude of 1, 6e-5 if all go one way. Adam's first steps turn rounding into a full step of a
    parameter whose gradient is nothing else, which moves no loss. On three sets of instructions the
    losses differ by 3e-7 at most.
    """
    words = ("network.max_epochs=2", "network.print_interval=1", "recipe.end_stage=1", *options)
    recipe.call(capsys, "debug", *words).ok()
    lines = (recipe.system() / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    losses = [row["loss"] for row in rows if row["kind"] == "step"]
    assert losses == pytest.approx([float(word) for word in recorded.split()], abs=1e-4, rel=0)
