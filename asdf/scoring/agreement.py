"""Agreement of all processes of a run on how they score, and what is logged of it.

Invariant: all processes score a list in one precision and with one engine, even if their devices
differ.
"""

from __future__ import annotations

from typing import Protocol

from asdf.data.scoring_plan import batch_samples
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.scoring.computing import (
    AUTO,
    PLAIN,
    ScoringPrecision,
    choose_engine,
    choose_scoring_precision,
)
from asdf.settings.sections import Audio, Computing, Network, SpeechActivity


class ScoringSettings(Protocol):
    """The settings that scores depend on."""

    @property
    def network(self) -> Network: ...

    @property
    def computing(self) -> Computing: ...

    @property
    def sad(self) -> SpeechActivity: ...
    @property
    def audio(self) -> Audio: ...


def agree_on_precision(requested: str, world: World) -> ScoringPrecision:
    """Choose one precision for all processes of `world`, which call it together.

    Raises:
        UsageError: the device of a rank does not support the precision. Raised on every rank.
    """
    refusal = ""
    local = ScoringPrecision("fp32", world.device)
    try:
        local = choose_scoring_precision(requested, world.device)
    # Raised only after `gather`: a rank that left before it would keep the others waiting.
    except UsageError as error:
        refusal = str(error)
    every = world.gather((refusal, local.name, local.reason)) or []

    def decide() -> tuple[str, str]:
        for refusal, _, _ in every:
            if refusal:
                raise UsageError(refusal)
        if requested == AUTO:
            has_tf32 = all(name == "tf32" for _, name, _ in every)
            return "tf32" if has_tf32 else "fp32", ""
        # One process without the precision is enough to change it, because a list is not scored in
        # two precisions. A process that lacks it takes precedence over one that only emulates it.
        for _, name, reason in sorted(every, key=lambda choice: choice[1] == requested):
            if reason:
                return name, reason
        return local.name, ""

    name, reason = world.run_on_main(decide)
    return ScoringPrecision(name, world.device, reason)


def agree_on_engine(requested: str, precision: ScoringPrecision, world: World) -> str:
    """Choose one engine for all processes of `world`, which call it together.

    Raises:
        UsageError: as `choose_engine`.
    """
    local = choose_engine(requested, precision)
    every = world.gather(local) or []
    # One process without the engine is enough: a list is not scored with two engines.
    return world.run_on_main(lambda: PLAIN if PLAIN in every else local)


def describe_scoring(settings: ScoringSettings, world: World) -> list[str]:
    """Describe precision and batches for the log, where they differ from the defaults of a CPU.

    All processes call it together.

    Raises:
        UsageError: a device does not have the requested precision.
    """
    lines = []
    requested = settings.computing.scoring_precision
    precision = agree_on_precision(requested, world)
    if requested == AUTO and precision.name != "fp32":
        lines.append(
            f"{precision.describe()}, as computing.scoring_precision = 'auto' is on this GPU: "
            "'fp32' is more exact and takes several times as long"
        )
    elif requested not in (AUTO, "fp32"):
        lines.append(precision.describe())
    gpu = world.smallest_gpu()
    if gpu and settings.network.eval_minibatch_size_factor == "auto":
        samples = batch_samples(settings.network, gpu)
        factor = samples / settings.network.minibatch_size / settings.network.train_clip_size
        lines.append(
            f"scoring in batches of up to {samples:,} samples: network.eval_minibatch_size_factor "
            f"= 'auto' is {factor:.3g} on a GPU of {gpu / 1e9:.0f} GB"
        )
    return lines
