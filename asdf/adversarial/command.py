"""Attack a detector on copies of a list, to measure it: FGSM, PGD and transferred attacks by SNR.

    python -m asdf adversarial network.pt dev_list.txt --output attacks
    python -m asdf adversarial network.pt dev_list.txt --output attacks --snr 50,30 --steps 40
    python -m asdf adversarial network.pt dev_list.txt --output attacks --transfer other.pt
    python -m asdf adversarial network.pt dev_list.txt --output attacks --attacks fgsm --peak 0.001

The scores of spoofs are raised and those of genuine speech lowered, on the whole way from samples
to score, by someone who knows the network; random noise of the same level stands next to it.
Success is the share of right decisions that are turned, at the threshold of the network, or else
of equal error rates without an attack. Nothing but numbers is written, unless --keep names a
folder for the attacked copies. FOLDER gets report.html, success.svg, results.csv, results.json,
results.tex, results.txt, and a score file for each attack; results are the same for any number of
--workers, and a command that was stopped goes on where it was.

Exit status: 0 all recordings were attacked, 1 some are left out, 2 a mistake in the command.
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
        "a network, then the list of recordings with labels", metavar="NETWORK LIST", default=()
    )
    output: Path | None = option("folder of score files and results", metavar="FOLDER")
    attacks: str = option(
        "attacks: fgsm, pgd (every sample bounded), pgd-snr (the SNR stated)",
        metavar="NAMES",
        default="fgsm,pgd,pgd-snr",
    )
    snr: str = option(
        "signal-to-noise ratios in dB (60,50,40,30,20, without --peak)", metavar="LIST", default=""
    )
    peak: str = option(
        "highest changes of a sample, as shares of full scale, such as 0.0005,0.001",
        metavar="LIST",
        default="",
    )
    steps: int = option("gradients of a climb of PGD", metavar="N", default=10)
    step: float | None = option("length of a step in radii (2.5 / steps)", metavar="SHARE")
    restarts: int = option("random starts of PGD; the best counts", metavar="N", default=1)
    transfer: str = option(
        "another network, on which the attacks are computed as well", metavar="NETWORK", default=""
    )
    whole: bool = flag("attack the score of the whole recording, over windows, as `score` gives it")
    keep: Path | None = option("write the attacked copies into this folder", metavar="FOLDER")
    folder: Path | None = option(
        "what paths in the list are relative to (its folder); where the recordings of a protocol "
        "or a corpus are"
    )
    seed: int = option("all draws follow from it", metavar="N", default=0)
    workers: int = option(
        "processes, each with a copy of the network; 0: none",
        metavar="N",
        default=0,
        check=check_workers,
    )
    replicates: int = replicates_option("replicates of each interval", may_be_none=False)
    device: str = option("%(default)s (a GPU if there is one), cpu, cuda, cuda:1", default="auto")
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
        raise UsageError("name a network, then a list of recordings.")
    if args.output is None:
        raise UsageError("--output FOLDER is needed: score files and results go there.")
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
        raise UsageError(f"{name} {text}: numbers with commas between them are needed.") from None


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
        f"{trials:,} recordings, {len(conditions)} attacks with levels: {passes * trials:,} "
        "gradients of the network",
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
