"""What a report shows is read from the folders of the runs, and measured as everywhere."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import evaluate, read_scores
from asdf.report import gather, runs_in
from asdf.report.drawing import page_data
from asdf.report.gathering import chosen, distinct_names
from asdf.runs.evaluations import best_network
from asdf.trials.run_folder import open_run_folder
from tests.unit.report.folders import gathered_of, make_run


def test_numbers_are_those_of_evaluate(tmp_path):
    run = make_run(tmp_path / "net")
    gathered = gather(runs_in([run]), replicates=50)
    assert gathered.sets == ["dev", "eval"]
    for measured in gathered.measurements:
        assert (measured.system, measured.network) == ("net", "epoch.2")
        scores = read_scores(run / "scores" / "epoch.2" / f"{measured.summary.set}.txt")
        result = evaluate(scores)
        assert measured.summary.result == result
        assert measured.curves[""].rates[:2] == [100, 0]
        # At most 40 % false alarms: all spoofs but the 24 highest are rejected, and all trials
        # below them.
        assert measured.misses[-1] == (scores.bona_fide <= np.sort(scores.spoof)[-25]).mean()
        assert sum(measured.histogram.bona_fide) == 40
        assert sorted(measured.curves) == ["", "A01", "A02", "A03"]
        assert sum(measured.histogram.spoof["A01"]) == 20
        assert measured.summary.columns == ("attack", "codec")
        assert measured.summary.intervals is not None
        interval = measured.summary.intervals.eer
        assert interval.low <= result.eer <= interval.high


def test_networks_are_the_reported_the_best_or_all(tmp_path):
    run = open_run_folder(make_run(tmp_path / "net", epochs=(1, 2, 3)))
    assert chosen(run, "reported") == [("epoch.3", "dev"), ("epoch.3", "eval")]
    every = [(f"epoch.{n}", name) for n in (1, 2, 3) for name in ("dev", "eval")]
    assert chosen(run, "all") == every
    (run.path / "results" / "results.json").unlink()
    assert chosen(run, "reported") == chosen(run, "best") == every[-2:]


def test_of_several_networks_each_is_a_system(tmp_path):
    gathered = gather(runs_in([make_run(tmp_path / "net")]), "all", replicates=0)
    assert gathered.systems == ["net epoch.2", "net epoch.1"]
    assert gathered.sets == ["dev", "eval"]


def test_the_best_network_is_that_of_the_first_validation_set_and_of_equals_the_later():
    def at(epoch, eer):
        record = {"kind": "evaluation", "step": epoch, "network": f"epoch.{epoch}.pt"}
        return {**record, "eer": {"dev": eer, "other": 0.0}}

    networks = ["epoch.1", "epoch.2", "epoch.3", "epoch.4"]
    records = [{"kind": "step", "step": 1}, at(1, 0.2), at(2, 0.1), at(3, 0.1), at(4, 0.3)]
    assert best_network(records, networks) == "epoch.3"
    assert best_network(records, ["epoch.1", "epoch.4"]) == "epoch.1"
    assert best_network([], networks) == "epoch.4"
    assert best_network([], []) is None


def test_a_folder_of_runs_is_its_runs(tmp_path):
    first, second = make_run(tmp_path / "out" / "a"), make_run(tmp_path / "out" / "b")
    found = [run.path for run in runs_in([tmp_path / "out", first])]
    assert found == [first.resolve(), second.resolve()]
    with pytest.raises(AsdfError, match="not the folder of a run"):
        runs_in([tmp_path])


def test_runs_of_one_name_are_distinguished_by_their_folders(tmp_path):
    paths = [tmp_path / name for name in ("x/net", "y/net", "z/other")]
    runs = [open_run_folder(make_run(path, sets=("dev",), epochs=(1,))) for path in paths]
    assert distinct_names(runs) == ["x/net", "y/net", "other"]


def test_a_set_of_one_class_is_a_finding_and_the_rest_is_measured(tmp_path):
    run = make_run(tmp_path / "net")
    path = run / "scores" / "epoch.2" / "dev.txt"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if " 0 " in line))
    gathered = gathered_of(run)
    assert gathered.sets == ["eval"]
    (finding,) = gathered.findings
    assert (finding.where, finding.level) == ("net on dev", "error")
    assert "none is bona fide" in finding.message


def test_a_malformed_score_file_is_a_finding(tmp_path):
    run = make_run(tmp_path / "net")
    (run / "scores" / "epoch.2" / "eval.txt").write_text("a 1 nan\nb 0 1\n")
    gathered = gathered_of(run)
    assert gathered.sets == ["dev"]
    assert "nan" in gathered.findings[0].message


def test_systems_of_different_trials_are_a_finding(tmp_path):
    folders = [make_run(tmp_path / name, epochs=(1,), sets=("dev",)) for name in ("a", "b")]
    path = folders[1] / "scores" / "epoch.1" / "dev.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    (finding,) = gathered_of(*folders).findings
    assert (finding.where, finding.level) == ("dev", "warning")
    sizes = "different trials (bona fide + spoof: 39 + 60, 40 + 60), so"
    assert finding.message.startswith(f"the systems were scored on {sizes}")
    # As many trials, one of which is another.
    path.write_text((folders[0] / "scores" / "epoch.1" / "dev.txt").read_text())
    assert gathered_of(*folders).findings == []
    path.write_text(path.read_text().replace(" ", "b ", 1))
    (folders[1] / "trials" / "dev.tsv").unlink()
    (finding,) = gathered_of(*folders).findings
    assert "different trials (bona fide + spoof: 40 + 60)" in finding.message


def test_without_trials_there_are_no_attacks(tmp_path):
    run = make_run(tmp_path / "net")
    (run / "trials" / "dev.tsv").unlink()
    dev, evaluation = gathered_of(run).measurements
    assert list(dev.curves) == [""]
    assert list(evaluation.curves) == ["", "A01", "A02", "A03"]


def test_a_page_does_not_grow_without_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("asdf.report.gathering._MAX_CURVES", 5)
    runs = runs_in([make_run(tmp_path / "net")])
    gathered = gather(runs, replicates=0)
    names = ["", "A01", "A02", "A03"]
    assert [list(measured.curves) for measured in gathered.measurements] == [names, [""]]
    assert "only the first 5 curves" in gathered.findings[0].message
    # Plots for papers have files of their own: they draw every curve, and the page does not grow.
    plotted = gather(runs, replicates=0, for_plots=True)
    assert [list(measured.curves) for measured in plotted.measurements] == [names] * 2
    assert page_data(plotted) == page_data(gathered)


def test_each_measurement_is_announced_before_it_starts(tmp_path):
    announced = []
    gather(runs_in([make_run(tmp_path / "net")]), replicates=0, on_start=announced.append)
    assert announced == ["net on dev", "net on eval"]
