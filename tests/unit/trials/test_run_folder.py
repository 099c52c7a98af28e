"""Reading and comparing what runs have left in their folders."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.evaluation import eer, paired_test, write_scores
from asdf.metrics.summary import speakers_of
from asdf.report.comparison import (
    chosen_network,
    different_environments,
    different_results,
    different_settings,
)
from asdf.trials.how_scored import PUBLISHED, HowScored, ScoredLength
from asdf.trials.run_folder import RunFolder, open_run_folder, read_records
from asdf.trials.scored_files import write_how_scored
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

IDS = [f"flac/U{number:03d}.flac" for number in range(120)]
LABELS = [int(number % 3 == 0) for number in range(120)]
SPEAKERS = [f"S{number // 12}" for number in range(120)]


OTHER = {"epochs": "20", "seed": 1, "gap": 3.0, "commit": "def"}


def make_run(folder, epochs="10", seed=0, gap=1.0, commit="abc"):
    folder.mkdir(parents=True)
    (folder / "settings.py").write_text(
        "# Settings\n\n"
        "paths.system_folder = 'one'  # run_configs.py:3 (net), over 'system1' (default)\n"
        f"network.max_epochs = {epochs}  # command line, over 1000 (default)\n"
    )
    records = [
        {"started": "1"},
        {"started": "2", "git": {"commit": commit}, "devices": ["cpu", "cpu"]},
    ]
    (folder / "environment.json").write_text(json.dumps(records))
    (folder / "metrics.jsonl").write_text('{"kind": "step", "step": 1, "loss": 0.5}\n{"kind": "st')
    rng = np.random.default_rng(seed)
    for network in ("epoch.2", "epoch.10", "epoch.3.step.40", "epoch.3", "average"):
        scores = rng.normal(size=120) + gap * np.array(LABELS)
        write_scores(folder / "scores" / network / "dev.txt", IDS, LABELS, scores)
    (folder / "results").mkdir()
    reported = [{"epoch": "epoch.10", "set": "dev"}]
    (folder / "results" / "results.json").write_text(json.dumps(reported))
    return folder


def test_a_run_folder_shows_what_the_run_has_left(tmp_path):
    run = open_run_folder(make_run(tmp_path / "net"))
    assert run.name == "net"
    epochs = run.settings()["network.max_epochs"]
    assert (epochs.text, epochs.source) == ("10", "command line, over 1000 (default)")
    assert run.environments()[-1]["started"] == "2"
    # The unfinished line is left out.
    assert run.training() == [{"kind": "step", "step": 1, "loss": 0.5}]
    networks = ["epoch.2", "epoch.3.step.40", "epoch.3", "epoch.10", "average"]
    assert list(run.score_files()) == networks
    assert run.reported() == [("epoch.10", "dev")]
    assert run.scores("epoch.2", "dev").ids == IDS and run.trials("dev") is None


def test_what_is_no_record_is_left_out(tmp_path):
    folder = make_run(tmp_path / "net")
    (folder / "environment.json").write_text('["?", {"started": "1"}]')
    assert open_run_folder(folder).environments() == [{"started": "1"}]


def test_without_a_report_the_best_network_stands_for_the_run(tmp_path):
    folder = make_run(tmp_path / "net")
    (folder / "results" / "results.json").unlink()
    with (folder / "metrics.jsonl").open("w") as file:
        for epoch, rate in ((2, 0.3), (3, 0.1), (10, 0.2)):
            record = {"kind": "evaluation", "step": epoch, "network": f"epoch.{epoch}.pt"}
            file.write(json.dumps({**record, "eer": {"dev": rate}}) + "\n")
    assert chosen_network(open_run_folder(folder)) == "epoch.3"


def test_a_folder_that_is_no_run_is_named_with_those_that_are(tmp_path):
    make_run(tmp_path / "output" / "net")
    with pytest.raises(AsdfError, match=r"output is not the folder of a run: .* the runs net"):
        open_run_folder(tmp_path / "output")
    with pytest.raises(AsdfError, match="there is no folder"):
        open_run_folder(tmp_path / "nowhere")


def test_differences_of_two_runs(tmp_path):
    first = open_run_folder(make_run(tmp_path / "a"))
    second = open_run_folder(make_run(tmp_path / "b", **OTHER))
    (setting,) = different_settings(first, second)
    assert (setting.name, setting.first, setting.second) == ("network.max_epochs", "10", "20")
    (code,) = different_environments(first, second)
    assert (code.name, code.first, code.second) == ("git.commit", "abc", "def")
    assert chosen_network(first) == "epoch.10" and chosen_network(first, "average") == "average"
    with pytest.raises(AsdfError, match=r"no scores of epoch\.7\. There are scores of epoch\.2,"):
        chosen_network(first, "epoch.7")
    (result,), refused = different_results(first, second, ("epoch.10", "epoch.10"), replicates=200)
    this, other = (run.scores("epoch.10", "dev") for run in (first, second))
    assert not result.by_speakers and not refused
    assert result.first.eer == eer(this.bona_fide, this.spoof)[0]
    assert result.difference == paired_test(this, other, replicates=200)
    assert result.difference.eer.value < -0.1 and result.difference.eer.p_value < 0.05


def test_whole_speakers_are_drawn_where_they_are_known(tmp_path):
    folders = make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, gap=3.0)
    # Bare, as in a protocol.
    names = [Path(name).stem for name in IDS]
    columns = {"speaker": SPEAKERS, "attack": [""] * 120}
    write_trials(folders[1] / "trials" / "dev.tsv", TrialList(names, LABELS, columns=columns))
    first, second = map(open_run_folder, folders)
    assert speakers_of(first.scores("average", "dev"), second.trials("dev")) == SPEAKERS
    (result,), _ = different_results(first, second, ("average", "average"), replicates=100)
    this, other = (run.scores("average", "dev") for run in (first, second))
    assert result.by_speakers
    assert result.difference == paired_test(this, other, speakers=SPEAKERS, replicates=100)


def test_an_unknown_speaker_leaves_the_trials_to_be_drawn(tmp_path):
    scores = open_run_folder(make_run(tmp_path / "a")).scores("average", "dev")
    for speakers in (["", *SPEAKERS[1:]], ["one"] * 120):
        trials = TrialList(IDS, scores.labels, columns={"speaker": speakers})
        assert speakers_of(scores, trials) is None
    assert speakers_of(scores, None) is None


def test_the_command_reports_all_three(tmp_path, capsys):
    folders = make_run(tmp_path / "a"), make_run(tmp_path / "b", **OTHER)
    out = tmp_path / "differences.json"
    assert main(["compare", *map(str, folders), "--replicates", "200", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "network.max_epochs\n    A  10    (command line)\n    B  20    (command line)\n" in text
    assert "  git.commit\n    A  abc\n    B  def\n" in text
    content = json.loads(out.read_text())
    value = 100 * content["results"][0]["difference"]["eer"]["value"]
    row = next(line for line in text.splitlines() if line.lstrip().startswith("dev"))
    assert f"{value:+.3f}" in row and row.endswith("B is better")


def test_settings_are_compared_before_there_are_scores(tmp_path, capsys):
    folders = make_run(tmp_path / "a"), make_run(tmp_path / "b", epochs="200")
    shutil.rmtree(folders[1] / "scores")
    assert main(["compare", *map(str, folders)]) == 0
    text = capsys.readouterr().out
    assert f"B  {folders[1]}, no scores yet\n" in text
    assert "    A  10     (command line)\n    B  200    (command line)\n" in text
    assert "no set was scored by both runs: A has dev; B has none" in text


def test_a_set_that_cannot_be_tested_does_not_hide_the_others(tmp_path, capsys):
    folders = make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1)
    for folder, ids, labels in zip(
        folders, (IDS[:4], IDS[1:5]), ([1, 1, 0, 0], [1, 0, 0, 0]), strict=True
    ):
        scored = folder / "scores" / "epoch.10"
        write_scores(scored / "one.txt", ids, labels, [4, 3, 2, 1])
        write_scores(scored / "two.txt", IDS[:2], [0, 0], [1, 2])
    out = tmp_path / "differences.json"
    assert main(["compare", *map(str, folders), "--replicates", "20", "--json", str(out)]) == 1
    captured = capsys.readouterr()
    missing = "the second system does not have the trials of the first: 1 are not in it: 'flac/U004"
    assert f"error: one: {missing}" in captured.err
    assert "error: two: there is no bona fide trial" in captured.err
    assert [line.split()[0] for line in captured.out.splitlines() if "EER %" in line] == ["dev"]
    content = json.loads(out.read_text())
    assert [result["set"] for result in content["results"]] == ["dev"]
    assert [message[:3] for message in content["not_tested"]] == ["one", "two"]


def test_a_run_compared_with_itself_shows_no_difference(tmp_path, capsys):
    folder = str(make_run(tmp_path / "a"))
    assert main(["compare", folder, folder, "--networks", "epoch.10", "epoch.10"]) == 0
    text = capsys.readouterr().out
    assert "Settings that differ\n  none" in text and "Code and machine that differ\n  none" in text
    row = next(line for line in text.splitlines() if line.lstrip().startswith("dev"))
    assert row.split(maxsplit=9)[5:] == [
        *("+0.000", "+0.000", "..", "+0.000"),
        "1.000  no significant difference",
    ]


def test_results_of_different_lengths_are_said_to_be(tmp_path, capsys):
    folders = make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, gap=3.0)
    lengths = PUBLISHED, ScoredLength(16000, 1_000_000)
    for folder, scored in zip(folders, lengths, strict=True):
        write_how_scored(folder / "scores" / "epoch.10" / "dev.txt", HowScored(scored, "fp32"))
    words = ["compare", *map(str, folders), "--replicates", "50"]
    assert main([*words, "--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert (
        "  dev was scored from different lengths (A first 64,600 samples, B whole, up to "
        "62.5 s), which\n"
        "  changes results too: score both in the same way before you compare\n"
    ) in out
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["first_scored"] == {"min_samples": 64600, "max_samples": 64600}
    assert (result["first_precision"], result["second_precision"]) == ("fp32", "fp32")
    assert "precisions" not in out
    quick = HowScored(PUBLISHED, "bf16")
    write_how_scored(folders[1] / "scores" / "epoch.10" / "dev.txt", quick)
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "different lengths" not in out
    assert (
        "  dev was scored in different precisions (A, B: fp32, bf16),\n"
        "  which moves scores a little: score both in fp32 for small differences\n"
    ) in out


@pytest.mark.parametrize(("second", "differ"), [("new", True), ("old", False), (None, False)])
def test_results_of_other_recordings_are_said_to_be(tmp_path, capsys, second, differ):
    folders = make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, gap=3.0)
    paths = [folder / "scores" / "epoch.10" / "dev.txt" for folder in folders]
    for path, recordings in zip(paths, ("old", second), strict=True):
        digests = recordings and {"list": "one", "recordings": recordings}
        write_how_scored(path, HowScored(PUBLISHED, "fp32", recordings=digests))
    words = ["--replicates", "20"]
    assert main(["compare", *map(str, folders), *words]) == 0
    note = "  dev was scored from different recordings of the same names,\n"
    assert (note in capsys.readouterr().out) == differ
    assert main(["evaluate", *map(str, paths), *words]) == 0
    warning = "warning: the systems were scored from different recordings of the same names"
    captured = capsys.readouterr()
    # What cannot be compared has no best.
    assert (warning in captured.err, "* significantly" in captured.out) == (differ, not differ)


@pytest.mark.parametrize("text", ['[{"a": ' + "9" * 5000 + "}]", "[" * 100_000])
def test_numbers_and_brackets_without_end_are_no_records(tmp_path, text):
    run = RunFolder(tmp_path)
    for path in (run.layout.environment, run.layout.results_json):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert run.environments() == [] and run.reported() == []
    with pytest.raises(ValueError):
        read_records(run.layout.results_json)


@pytest.mark.parametrize(
    ("setting", "command", "folder"),
    [
        ("'/data'", "python recipes/net/run.py debug", "/data"),
        ("'data'", "python recipes/net/run.py debug", "/home/me/recipes/net/data"),
        ("'data'", "python '/my recipes/run.py'", "/my recipes/data"),
        ("'data'", "python 'run.py", "data"),
        ("'data'", "", "data"),
    ],
)
def test_a_relative_database_folder_starts_in_the_recipe(tmp_path, setting, command, folder):
    run = open_run_folder(make_run(tmp_path / "net"))
    assert run.database_folder() is None
    run.layout.settings.write_text(f"paths.database_folder = {setting}\n")
    record = {"command": command, "working_directory": "/home/me"}
    run.layout.environment.write_text(json.dumps([{}, record]))
    assert run.database_folder() == Path(folder)


@pytest.mark.parametrize(
    ("before", "after", "differs"), [(100, 110, 0), (100, 111, 1), (9, "-", 1)]
)
def test_a_tenth_more_memory_is_no_difference(tmp_path, before, after, differs):
    runs = []
    for name, memory in (("a", before), ("b", after)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.py").write_text("# Settings\n")
        record = [{"peak_memory_mb": {"cuda:0": memory}}]
        (tmp_path / name / "environment.json").write_text(json.dumps(record))
        runs.append(open_run_folder(tmp_path / name))
    assert len(different_environments(*runs)) == differs
