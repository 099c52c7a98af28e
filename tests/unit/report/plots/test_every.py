"""Every plot of the report of two runs."""

import pytest

from asdf.__main__ import main
from asdf.report import gather, runs_in
from asdf.report.plots import write_plots
from tests.unit.report.folders import make_run


@pytest.mark.slow
def test_every_plot_of_two_runs(tmp_path, capsys):
    make_run(tmp_path / "net"), make_run(tmp_path / "other", shift=1.0)
    words = ["report", str(tmp_path), "--output", str(tmp_path / "both.html"), "--replicates", "0"]
    assert main([*words, "--plots", str(tmp_path / "figures")]) == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    of_sets = ("det_{}", "eer_by_attack_{}", "eer_by_codec_{}", "scores_net_{}", "scores_other_{}")
    by_attack = ("det_by_attack_net_{}", "det_by_attack_other_{}")
    expected = {
        form.format(name) for form in (*of_sets, *by_attack) for name in ("dev", "eval")
    } | {"training"}
    assert names == {f"{name}.{kind}" for name in expected for kind in ("pdf", "png")}
    assert "15 plots, each as pdf and png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("attacks", "expected"),
    [
        (
            ("A01", "A02"),
            ["det", "eer_by_attack", "eer_by_codec", "scores_net", "det_by_attack_net"],
        ),
        # What divides nothing has no plot.
        (("-",), ["det", "eer_by_codec", "scores_net"]),
    ],
)
def test_plots_are_named_after_what_they_show(tmp_path, attacks, expected):
    """A colon, which no file's name may have on some systems, becomes a hyphen."""
    folder = make_run(tmp_path / "net", sets=("la:dev",), attacks=attacks)
    gathered = gather(runs_in([folder]), replicates=0, for_plots=True)
    written = write_plots(tmp_path / "figures", gathered, ["svg"])
    assert [path.name for path in written] == [
        *(f"{name}_la-dev.svg" for name in expected),
        "training.svg",
    ]
    assert all(path.stat().st_size for path in written)
