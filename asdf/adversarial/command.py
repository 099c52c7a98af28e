"""Measure the success of attacks on a detector: FGSM, PGD and transferred attacks, by SNR.

    python -m asdf adversarial network.pt dev_list.txt --output attacks
    python -m asdf adversarial network.pt dev_list.txt --output attacks --snr 50,30 --steps 40
    python -m asdf adversarial network.pt dev_list.txt --output attacks --transfer other.pt
    python -m asdf adversarial network.pt dev_list.txt --output attacks --attacks fgsm --peak 0.001

The attacks are white-box, through the complete path from samples to score: they raise the scores of
spoofs and lower those of genuine speech. Random noise of the same level is reported for comparison.
Success is the proportion of correct decisions that are reversed, at the threshold of the network,
or at the EER without attack. Attacked copies are written only if --keep gives a folder for them.
FOLDER gets report.html, success.svg, results.csv, results.json, results.tex, results.txt, and a
score file for each attack. Results do not depend on --workers. After a stop, the same command
resumes.

Exit status: 0 all recordings attacked, 1 some were left out, 2 error in the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.named_recordings import read_recordings
from asdf.commands.options import Command, WeightsOptions, argument, flag, option, replicates_option
from asdf.commands.outputs import show
from asdf.commands.study_files import (
    check_labels,
    check_workers,
    facts_of,
    made_by,
    open_rivals,
    write_results,
)
from asdf.errors import UsageError

if TYPE_CHECKING:
    from asdf.adversarial import Condition, Search, Study


@dataclass(frozen=True, kw_only=True)
class AdversarialOptions(WeightsOptions):
    """Options of the command."""

    names: tuple[str, ...] = argument(
        "network, and list of recordings with labels", metavar="NETWORK LIST", default=()
    )
    output: Path | None = option("output folder for score files and results", metavar="FOLDER")
    attacks: str = option(
        "attacks: fgsm, pgd (limits each sample), pgd-snr (limits the SNR)",
        metavar="NAMES",
        default="fgsm,pgd,pgd-snr",
    )
    snr: str = option(
        "signal-to-noise ratios in dB (60,50,40,30,20, without --peak)", metavar="LIST", default=""
    )
    peak: str = option(
        "maximum changes of a sample, relative to full scale, such as 0.0005,0.001",
        metavar="LIST",
        default="",
    )
    steps: int = option("number of gradient steps of PGD", metavar="N", default=10)
    step: float | None = option("step size, relative to the radius (2.5 / steps)", metavar="SHARE")
    restarts: int = option(
        "number of random starts of PGD, of which the best is used", metavar="N", default=1
    )
    transfer: str = option(
        "network for transferred attacks, which are computed on it", metavar="NETWORK", default=""
    )
    whole: bool = flag("attack the score of the whole recording, the mean over windows")
    keep: Path | None = option("write the attacked copies to this folder", metavar="FOLDER")
    folder: Path | None = option(
        "folder that paths in the list are relative to (the folder of the list), or that contains "
        "the recordings of a protocol or corpus"
    )
    seed: int = option("seed of all random draws", metavar="N", default=0)
    workers: int = option(
        "number of additional processes, each with a copy of the network",
        metavar="N",
        default=0,
        check=check_workers,
    )
    replicates: int = replicates_option("number of bootstrap replicates", may_be_none=False)
    device: str = option("device: auto (a GPU if available), cpu, cuda or cuda:1", default="auto")
    full_length: bool = flag("score whole recordings up to 62.5 s")


COMMAND = Command("adversarial", __doc__, AdversarialOptions)


def main(arguments: list[str]) -> int:
    """Attack a detector; return 1 if recordings are left out, else 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a network or the list cannot be read, the network gives no gradients, or an
            output cannot be written.
    """
    args = COMMAND.read(arguments)
    if len(args.names) != 2:
        raise UsageError("give a network and a list of recordings: NETWORK LIST.")
    if args.output is None:
        raise UsageError("the output folder is missing. Give it with --output FOLDER.")
    from asdf.adversarial import Plan, Search, choose_attacks, run_attacks

    network, named = args.names
    names = [name for name in args.attacks.split(",") if name]
    snrs_db = _numbers(args.snr, "--snr")
    peaks = _numbers(args.peak, "--peak")
    # Mistakes in names and levels are found before the list is read and networks are opened.
    conditions = choose_attacks(names, snrs_db, peaks, transfers=bool(args.transfer))
    search = Search(args.steps, args.step, args.restarts)
    trials = read_recordings(named, args.folder, classes=True)
    check_labels(trials, "the success of attacks is")
    networks = [network, args.transfer] if args.transfer else [network]
    rivals = open_rivals(networks, args, args.device, args.full_length)
    plan = Plan(
        trials=trials,
        conditions=conditions,
        folder=args.output,
        keeps=args.keep,
        search=search,
        is_whole=args.whole,
        seed=args.seed,
        workers=args.workers,
        replicates=args.replicates,
        say=lambda sentence: show(sentence, sys.stderr),
    )
    _say_size(len(trials), conditions, search)
    study = run_attacks(plan, *rivals)
    _write(args.output, study, made_by("adversarial", arguments, rivals))
    return int(bool(study.left_out))


def _numbers(text: str, name: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",") if number]
    except ValueError:
        raise UsageError(f"{name} {text}: expected numbers separated by commas.") from None


def _say_size(trials: int, conditions: Sequence[Condition], search: Search) -> None:
    """State before any work how many gradients are computed, because they take most of the time."""
    passes = 0
    for condition in conditions:
        assert condition.attack is not None  # all have one that are chosen
        if condition.attack.name.startswith("pgd"):
            passes += search.steps * search.restarts
        else:
            passes += int(condition.attack.has_gradients)
    show(
        f"{trials:,} recordings, {len(conditions)} combinations of attack and level: "
        f"{passes * trials:,} gradient computations",
        sys.stderr,
    )


def _write(folder: Path, study: Study, made: dict[str, str]) -> None:
    """Write all results, and show the text."""
    from asdf.adversarial import (
        attacks_csv,
        attacks_json,
        attacks_latex,
        attacks_page,
        attacks_text,
        success_svg,
    )

    text = attacks_text(study)
    contents = {
        "results.json": attacks_json(study, made),
        "results.csv": attacks_csv(study),
        "results.tex": attacks_latex(study),
        "results.txt": text,
        "success.svg": success_svg(study),
        "report.html": attacks_page(study, facts_of(made)),
    }
    write_results(folder, contents)
    show(text.rstrip("\n"))
    show(f"written to {folder}: report.html, success.svg, results.*, scores/", sys.stderr)
