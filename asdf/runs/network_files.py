"""The networks of a run by their file names, and what the validation sets said of them; no torch is needed to ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.json_lines import read_json_lines
from asdf.runs.layout import METRICS
from asdf.runs.log import LOG

RESUME = "resume.pt"
AVERAGE = "average.pt"


def network_files(folder: Path) -> dict[Path, tuple[int, int]]:
    """The networks in `folder` with (whole epochs, step inside the next epoch), oldest first."""
    found = {}
    for path in folder.glob("epoch.*.pt"):
        parts = path.name.split(".")
        if len(parts) == 3 and parts[1].isdigit():
            found[path] = (int(parts[1]), 0)
        elif len(parts) == 5 and parts[1].isdigit() and parts[2] == "step" and parts[3].isdigit():
            found[path] = (int(parts[1]) - 1, int(parts[3]))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def networks_present(folder: Path) -> str:
    """A sentence on the networks that there are, for messages."""
    names = [path.name for path in network_files(folder)]
    return (
        f"There are {', '.join(names[-8:])}."
        if names
        else "There are no networks: run stage 1 first."
    )


def write_evaluations(folder: Path, evaluations: list[dict[str, Any]]) -> None:
    """Keep the EERs of the validation sets beside the networks, for choosing among them without opening them."""
    write_text(folder / "evaluations.json", json.dumps(evaluations, indent=1) + "\n")


def read_evaluations(folder: Path) -> list[dict[str, Any]]:
    """What `write_evaluations` wrote; nothing where there is nothing.

    A damaged file is passed over with a warning: each evaluation is a line of `metrics.jsonl` as well.

    Raises:
        AsdfError: the file is damaged, and metrics.jsonl has no evaluations in its place.
    """
    path = folder / "evaluations.json"
    try:
        evaluations = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        return _evaluations_again(path, f"cannot be read ({error})")
    if not isinstance(evaluations, list) or not all(map(_is_evaluation, evaluations)):
        return _evaluations_again(path, "is no list of evaluations")
    return evaluations


def _evaluations_again(path: Path, damage: str) -> list[dict[str, Any]]:
    """The evaluations as metrics.jsonl has them."""
    metrics = path.parents[1] / METRICS
    records = [record for record in read_json_lines(metrics) if record.get("kind") == "evaluation"]
    evaluations = [record for record in records if _is_evaluation(record)]
    if not evaluations:
        raise AsdfError(
            f"{path} {damage}, and {metrics} has no evaluations to take their place. Get the file from a backup, or "
            "remove it: the networks then count as not evaluated, and none of them can be the best."
        )
    LOG.warning(
        "warning: %s %s; its %d evaluations are read from %s",
        path,
        damage,
        len(evaluations),
        metrics,
    )
    return [
        {name: value for name, value in record.items() if name != "kind"} for record in evaluations
    ]


def other_precisions(evaluations: list[dict[str, Any]], precision: str) -> str:
    """A remark where EERs were computed in other precisions than those from here on; '' where not.

    The first versions wrote none and computed in fp32.
    """
    before = dict.fromkeys(one.get("scoring_precision", "fp32") for one in evaluations)
    others = [name for name in before if name != precision]
    if not others:
        return ""
    return (
        f"networks were validated with computing.scoring_precision = {', '.join(map(repr, others))} so far, from "
        f"here on {precision!r}: small differences between their EERs, by which the best is chosen, may come from that"
    )


def _is_evaluation(value: Any) -> bool:
    """Whether a value has what is needed of an evaluation: a step, a network's file name and EERs."""
    if not isinstance(value, dict):
        return False
    eers = value.get("eer")
    return (
        isinstance(value.get("step"), int)
        and isinstance(value.get("network"), str)
        and isinstance(eers, dict)
        and bool(eers)
        and all(isinstance(eer, float | int) for eer in eers.values())
    )


def by_eer(evaluations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evaluations from the best on, judged by the first validation set; of equals the later one comes first."""
    return sorted(
        evaluations,
        key=lambda evaluation: (next(iter(evaluation["eer"].values())), -evaluation["step"]),
    )
