"""What is logged of scoring before it begins."""

from __future__ import annotations

from asdf.data.scoring_plan import batch_samples
from asdf.distributed.resources import smallest_gpu
from asdf.distributed.world import World
from asdf.scoring.precision import AUTO, agree_on_precision
from asdf.settings.sections import Sections


def describe_scoring(settings: Sections, world: World) -> list[str]:
    """Describe precision and batches for the log, where they are not what every CPU does.

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
            "'fp32' has all digits and takes several times as long"
        )
    elif requested not in (AUTO, "fp32"):
        lines.append(precision.describe())
    gpu = smallest_gpu(world)
    if gpu and settings.network.eval_minibatch_size_factor == "auto":
        samples = batch_samples(settings.network, gpu)
        factor = samples / settings.network.minibatch_size / settings.network.train_clip_size
        lines.append(
            f"scoring in batches of up to {samples:,} samples: network.eval_minibatch_size_factor "
            f"= 'auto' stands for {factor:.3g} on a GPU of {gpu / 1e9:.0f} GB"
        )
    return lines
