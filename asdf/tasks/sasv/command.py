"""Evaluate spoofing-robust speaker verification (SASV), as in ASVspoof 5 track 2 and WildSpoof.

    python -m asdf sasv scores.tsv --keys ASVspoof5.eval.track_2.trial.tsv --by attack
    python -m asdf sasv A=first.tsv B=second.tsv --keys keys.tsv --latex table.tex
    python -m asdf sasv scores.tsv --keys keys.tsv --fuse nonlinear --on dev.tsv \\
        --on-keys dev_keys.tsv --output fused.tsv
    python -m asdf sasv --cm cm.txt --asv asv.txt --keys keys.tsv --fuse sum --output score.tsv

A score file has the header 'spk filename cm-score asv-score sasv-score', with '-' for missing
values, or lines 'SPK UTT SCORE KEY' or 'SPK UTT SCORE' with SASV scores. Keys are target, nontarget
and spoof; the files of ASVspoof 5, SASV 2022 and WildSpoof are recognised by their columns. For a
network that compares recordings with enrolments, give its ASDF score file, and its list of trials
with the columns 'reference' and 'asv_label' as keys. --cm gives scores of utterances, and --asv
lines 'SPK UTT SCORE'. The default costs of the a-DCF are those of ASVspoof 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asdf.commands.judged_files import System, named_systems
from asdf.commands.options import Command, argument, flag, option, replicates_option
from asdf.commands.outputs import (
    check_inputs,
    check_overwriting,
    input_name,
    output_name,
    show,
    text_stream,
    write_outputs,
)
from asdf.errors import AsdfError, UsageError
from asdf.metrics.tandem import TANDEM, TandemCost
from asdf.runs.files import atomic_write, write_text
from asdf.runs.streams import show_error
from asdf.tasks.sasv.combining import FUSIONS, fit_fusion
from asdf.tasks.sasv.pair_scores import is_pair_list, read_pair_scores
from asdf.tasks.sasv.sasv_files import (
    SasvScores,
    SasvTrials,
    join_systems,
    read_sasv_keys,
    read_sasv_scores,
    with_keys,
    write_sasv_scores,
)
from asdf.tasks.sasv.sasv_measures import SasvSummary, summarise_sasv, tandem_path
from asdf.tasks.sasv.sasv_tables import (
    sasv_csv,
    sasv_json,
    sasv_latex,
    sasv_systems_text,
    sasv_text,
)


@dataclass(frozen=True)
class _Scored:
    """A system with its scores; `are_llrs` if a fusion made log-likelihood ratios."""

    name: str
    scores: SasvScores
    are_llrs: bool = False


def _cost_option(name: str, meaning: str) -> Any:
    """Return the field of one of the costs, by its name in `TandemCost`."""
    # The default is `TANDEM`'s own, so the help cannot differ from what is in use.
    return option(f"{meaning} ({getattr(TANDEM, name):g})", "X")


@dataclass(frozen=True, kw_only=True)
class FusionOptions:
    """Fusion of CM and ASV scores."""

    fuse: str | None = option(
        "fuse CM and ASV scores into a SASV score, with this method",
        choices=FUSIONS,
    )
    on: Path | None = option(
        "score file of the development set for fitting the fusion",
        metavar="DEV",
    )
    on_keys: Path | None = option(
        "keys of the development set",
        metavar="K",
    )
    on_cm: Path | None = option(
        "CM scores of the development set, instead of --on",
        metavar="F",
    )
    on_asv: Path | None = option(
        "ASV scores of the development set, instead of --on",
        metavar="F",
    )
    spoof_share: float | None = option(
        "proportion of spoofs among impostors (from the costs)",
        metavar="R",
    )
    output: Path | None = option(
        "write the fused score file",
        metavar="OUT",
        short="-o",
    )


@dataclass(frozen=True, kw_only=True)
class CostOptions:
    """Costs of the a-DCF, by default those of ASVspoof 5."""

    p_target: float | None = _cost_option("target_prior", "prior probability of targets")
    p_nontarget: float | None = _cost_option("nontarget_prior", "prior probability of nontargets")
    p_spoof: float | None = _cost_option("spoof_prior", "prior probability of spoofs")
    cost_miss: float | None = _cost_option("miss", "cost of rejecting a target")
    cost_fa: float | None = _cost_option("false_alarm", "cost of accepting a nontarget")
    cost_spoof: float | None = _cost_option("spoof_false_alarm", "cost of accepting a spoof")

    @property
    def costs(self) -> dict[str, float]:
        """The given costs, by their names in `TandemCost`."""
        named = {
            "target_prior": self.p_target,
            "nontarget_prior": self.p_nontarget,
            "spoof_prior": self.p_spoof,
            "miss": self.cost_miss,
            "false_alarm": self.cost_fa,
            "spoof_false_alarm": self.cost_spoof,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class SasvOptions(FusionOptions, CostOptions):
    """Options of the command."""

    scores: tuple[str, ...] = argument(
        "score files, one per system",
        metavar="[NAME=]SCORES",
        default=(),
    )
    keys: Path | None = option(
        "file with the key of each trial: target, nontarget or spoof",
        metavar="K",
    )
    cm: Path | None = option(
        "CM scores of the utterances",
        metavar="F",
    )
    asv: Path | None = option(
        "ASV scores, 'SPK UTT SCORE'",
        metavar="F",
    )
    by: str | None = option(
        "columns of the keys to break results down by (attack)",
        metavar="C,C",
    )
    llr: bool = flag(
        "SASV scores are log-likelihood ratios: also compute the a-DCF at the Bayes threshold"
    )
    replicates: int = replicates_option(
        "number of bootstrap replicates (%(default)s); 0: no intervals"
    )
    json: Path | None = option(
        "write all results as JSON, with all digits",
        metavar="OUT",
    )
    csv: Path | None = option(
        "write a CSV row per system and condition",
        metavar="OUT",
    )
    latex: Path | None = option(
        "write LaTeX tables for a paper (booktabs)",
        metavar="OUT",
    )
    path: Path | None = option(
        "write the t-EER path as CSV",
        metavar="OUT",
    )


COMMAND = Command("sasv", __doc__, SasvOptions)


def main(arguments: list[str]) -> int:
    """Print the metrics; return 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    args = COMMAND.read(arguments)
    cost = _read_cost(args)
    _check(args)
    screen = text_stream(_outputs(args))
    systems = _read_systems(args)
    if args.fuse:
        systems = _fuse(args, systems[0], cost)
    summaries = [_summarise(args, scored, cost) for scored in systems]
    # The fused system is the last one, and --path without a fusion is of a single system.
    scores = systems[-1].scores
    write_outputs(
        [
            (args.json, lambda path: write_text(path, sasv_json(summaries))),
            (args.csv, lambda path: write_text(path, sasv_csv(summaries))),
            (args.latex, lambda path: write_text(path, sasv_latex(summaries))),
            (args.path, lambda path: _write_path(path, scores)),
            (args.output, lambda path: write_sasv_scores(path, scores)),
        ]
    )
    for index, summary in enumerate(summaries):
        show(("\n" if index else "") + sasv_text(summary), screen)
        for column, values in summary.left_out.items():
            show_error(
                f"warning: {summary.name}: by {column}: omitted because target, nontarget or "
                f"spoof trials are missing: {', '.join(values[:8])} ({len(values)} values)."
            )
    if len(summaries) > 1:
        show("\n" + sasv_systems_text(summaries), screen)
    if args.output:
        show(f"written to {output_name(args.output)}: {len(scores.trials)} trials", screen)
    return 0


def _read_systems(args: SasvOptions) -> list[_Scored]:
    """Read the scores of all systems, with the kinds of their trials.

    Raises:
        UsageError, AsdfError: as `main`.
    """
    if args.keys is not None and is_pair_list(args.keys):
        if args.cm or args.fuse:
            raise UsageError(
                f"{input_name(args.keys)} is a list of pairs, which a single network scores, but "
                "--cm, --asv and --fuse combine two systems. Leave them out and give score files."
            )
        systems = []
        for system in named_systems(args.scores):
            systems.append(_Scored(system.name, read_pair_scores(system.path, args.keys)))
        return systems
    keys = read_sasv_keys(args.keys) if args.keys else None
    if keys is not None and args.cm and args.asv:
        return [_Scored("CM and ASV", _join(keys, args.cm, args.asv))]
    systems = []
    for system in named_systems(args.scores):
        systems.append(_Scored(system.name, _read_scores(system.path, keys)))
    return systems


def _read_scores(path: Path, keys: SasvTrials | None) -> SasvScores:
    scores = read_sasv_scores(path)
    if keys is not None:
        return with_keys(scores, keys, input_name(path))
    if scores.trials.kinds is None:
        raise UsageError(
            f"{input_name(path)} does not contain the keys of the trials (target, nontarget or "
            "spoof). Give them with --keys."
        )
    return scores


def _join(keys: SasvTrials, cm: Path, asv: Path) -> SasvScores:
    from asdf.trials.formats import read_score_file
    from asdf.trials.trial_list import bare_name

    file = read_score_file(cm)
    # Keys name utterances without folder and suffix.
    by_name = dict(zip(map(bare_name, file.ids), file.scores.tolist(), strict=True))
    return join_systems(keys, by_name, read_sasv_scores(asv), (input_name(cm), input_name(asv)))


def _fuse(args: SasvOptions, system: _Scored, cost: TandemCost) -> list[_Scored]:
    """Return each system that decides by itself, before the fusion, and the fused one."""
    assert args.fuse is not None
    development = None
    keys = read_sasv_keys(args.on_keys) if args.on_keys else None
    if keys is not None and args.on_cm and args.on_asv:
        development = _join(keys, args.on_cm, args.on_asv)
    elif args.on:
        development = _read_scores(args.on, keys)
    fusion = fit_fusion(args.fuse, development, cost, args.spoof_share)
    _warn_of_shared(development, system.scores)
    fused = fusion.apply(system.scores)
    show_error(f"fusion: {fusion.describe()}")
    systems = []
    if system.scores.sasv is not None:
        systems.append(system)
    trials = system.scores.trials
    systems.append(_Scored("ASV alone", SasvScores(trials, sasv=system.scores.asv)))
    systems.append(_Scored("CM alone", SasvScores(trials, sasv=system.scores.cm)))
    systems.append(_Scored(f"fused ({fusion.kind})", fused, fusion.are_llrs))
    return systems


def _warn_of_shared(development: SasvScores | None, scores: SasvScores) -> None:
    if development is None:
        return
    shared = len(set(development.trials.names()).intersection(scores.trials.names()))
    if shared:
        show_error(
            f"warning: {shared} of the {len(scores.trials)} trials are also in the development "
            "set, so the fusion looks better than on new trials."
        )


def _summarise(args: SasvOptions, system: _Scored, cost: TandemCost) -> SasvSummary:
    by = _by(args.by, system.scores)
    # Two bootstraps, unless there is only one claimed speaker.
    total = 2 * args.replicates if system.scores.sasv is not None else 0
    with _bar(system.name, total) as progress:
        try:
            return summarise_sasv(
                system.name,
                system.scores,
                cost=cost,
                by=by,
                replicates=args.replicates,
                are_llrs=args.llr or system.are_llrs,
                progress=progress,
            )
        except AsdfError as error:
            raise AsdfError(f"{system.name}: {error}") from None


def _by(requested: str | None, scores: SasvScores) -> list[str]:
    existing = scores.trials.columns
    if requested is None:
        return ["attack"] if "attack" in existing else []
    names = [word.strip() for word in requested.split(",") if word.strip()]
    unknown = [name for name in names if name not in existing]
    if unknown:
        known = ", ".join(existing) or "none"
        raise UsageError(
            f"--by {requested}: the keys have no column {unknown[0]}. Columns: {known}."
        )
    return names


def _write_path(path: Path, scores: SasvScores) -> None:
    """Write the t-EER path as csv: pairs of thresholds with equal tandem rates, and the rate."""
    curve = tandem_path(scores)
    rows = zip(
        curve.asv_thresholds.tolist(),
        curve.cm_thresholds.tolist(),
        curve.rates.tolist(),
        curve.gaps.tolist(),
        strict=True,
    )
    with atomic_write(path) as file:
        file.write("asv_threshold,cm_threshold,tandem_eer\n")
        for asv_threshold, cm_threshold, rate, gap in rows:
            # At an ASV threshold that rejects all impostors there is no pair.
            if gap != float("inf"):
                file.write(f"{asv_threshold!r},{cm_threshold!r},{rate!r}\n")


@contextmanager
def _bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, for bootstraps that take more than a moment."""
    from tqdm import tqdm

    title = f"intervals of {name}"
    with tqdm(
        desc=title,
        total=total,
        unit="replicates",
        leave=False,
        delay=1,
        disable=None,
    ) as bar:

        def progress(done: int) -> None:
            bar.update(done)

        yield progress


def _read_cost(args: SasvOptions) -> TandemCost:
    """Return the costs of the options; omitted ones are those of ASVspoof 5.

    Raises:
        UsageError: the priors do not sum to 1, or a value is not positive.
    """
    cost = replace(TANDEM, **args.costs)
    priors = (cost.target_prior, cost.nontarget_prior, cost.spoof_prior)
    costs = (cost.miss, cost.false_alarm, cost.spoof_false_alarm)
    # NaN compares as false, so it is refused too.
    if not all(value > 0 for value in (*priors, *costs)) or not abs(sum(priors) - 1) < 1e-9:
        raise UsageError(
            f"the priors of target, nontarget and spoof are {priors}, and the costs {costs}. "
            "Priors must be positive with a sum of 1, and costs must be positive."
        )
    return cost


def _check(args: SasvOptions) -> None:
    """Raise UsageError for contradictory options."""
    if bool(args.cm) != bool(args.asv):
        raise UsageError("--cm and --asv must be given together.")
    if bool(args.scores) == bool(args.cm):
        raise UsageError("give either score files, or --cm and --asv.")
    if args.cm and not args.keys:
        raise UsageError("--cm and --asv need the keys of the trials. Give --keys too.")
    if bool(args.on_cm) != bool(args.on_asv) or (args.on_cm and not args.on_keys):
        raise UsageError("--on-cm, --on-asv and --on-keys must be given together.")
    if args.on and args.on_cm:
        raise UsageError("give the development set either with --on, or with --on-cm and --on-asv.")
    fusing = (args.on, args.on_cm, args.on_keys, args.spoof_share, args.output)
    # `is not None`, since a share of 0 is a value.
    if not args.fuse and any(value is not None for value in fusing):
        raise UsageError("--on, --spoof-share and --output need a fusion. Give --fuse too.")
    if args.on_keys and not (args.on or args.on_cm):
        raise UsageError("--on-keys needs the scores of the development set. Give --on too.")
    if (args.fuse or args.path) and len(args.scores) > 1:
        raise UsageError("--fuse and --path work with a single system. Give one score file.")
    systems: Sequence[System] = named_systems(args.scores) if args.scores else []
    named = (args.keys, args.cm, args.asv, args.on, args.on_keys, args.on_cm, args.on_asv)
    inputs = [system.path for system in systems] + [path for path in named if path]
    check_inputs(inputs)
    check_overwriting(inputs, _outputs(args))


def _outputs(args: SasvOptions) -> list[Path | None]:
    return [args.json, args.csv, args.latex, args.path, args.output]
