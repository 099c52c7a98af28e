"""The shipped detector as a graph that ONNX Runtime computes: a first answer without torch.

Invariant: nothing here imports torch, but for what is asked of the network itself. The graph's
scores are as close as the network's to those of the network in double precision, within 1e-5.

Shapes: B waveforms, T samples.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open

from asdf.audio import repeat_to
from asdf.data.scoring_plan import ScoringPlan
from asdf.distributed.devices import keep_freed_memory
from asdf.errors import UsageError
from asdf.metrics.calibration import read_calibration
from asdf.networks.extras import EMBEDDING, HeadExtra
from asdf.runs.log import LOG
from asdf.scoring.opened_network import OpenedNetwork, Options, read_state
from asdf.scoring.waveform_scorer import Outcomes, WaveformScorer
from asdf.settings.catalogue import our_catalogue
from asdf.settings.sections import Sections, assign
from asdf.shipped import GRAPH, NETWORK, SMALL, shipped_detector
from asdf.trials.how_scored import ScoredLength

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

# Memory for the passes of short recordings, which is kept from one to the next.
_KEPT_BYTES = 32 << 20
# Samples of a batch: larger ones are no faster, and take memory that is not kept.
_BATCH_SAMPLES = 2**17
# Severity of the runtime's log, which otherwise also writes what it raises.
_FATAL = 4


def open_graph(options: Options) -> OpenedNetwork | None:
    """Open the shipped detector by its graph; None if torch must compute what is asked for."""
    suits = (
        str(options.device) in ("auto", "cpu")
        and options.precision in ("auto", "fp32")
        and options.network_folder is None
        and not options.full_length
    )
    if not suits:
        return None
    try:
        import onnxruntime  # noqa: F401
    # An installation may be broken, as without a library of the system.
    except ImportError:
        return None
    keep_freed_memory(_KEPT_BYTES)
    state = read_state(NETWORK)
    with safe_open(NETWORK, "numpy") as file:
        entries = json.loads(file.metadata()["asdf"])
    settings = Sections()
    for section, values in entries["settings"].items():
        for name, value in values.items():
            # A file keeps settings that have left since.
            if f"{section}.{name}" in our_catalogue().settings:
                plain = tuple(value) if isinstance(value, list) else value  # JSON only has lists
                assign(settings, {f"{section}.{name}": plain})
    threads = options.threads or 1
    remark = shipped_detector().describe()
    LOG.warning("%s", remark)
    return OpenedNetwork(
        NETWORK,
        state,
        SMALL,
        GraphScorer(settings, threads),
        settings,
        read_calibration(entries["calibration"], NETWORK),
        "cpu",
        threads,
        remark,
    )


class GraphScorer(WaveformScorer):
    """The shipped detector, computed by ONNX Runtime on the CPU."""

    precision = "fp32"
    engine = "graph"
    name = SMALL
    device_type = "cpu"

    def __init__(self, settings: Sections, threads: int) -> None:
        """Open the graph; `settings` are those of the network."""
        self.audio = settings.audio
        self.parameters = shipped_detector().parameters
        self.extras = {EMBEDDING: HeadExtra(EMBEDDING)}
        rules = settings.network
        longest = rules.max_evaluation_utterance_length_in_samples
        self.trial_samples = self.window_samples = longest
        self.length = ScoredLength(
            rules.min_evaluation_utterance_length_in_samples, longest, settings.audio.sample_rate
        )
        self.plan = ScoringPlan(self.length, int, _BATCH_SAMPLES)
        self.use_threads(threads)

    @property
    def device(self) -> torch.device:
        """The CPU, as a device of torch, which it imports."""
        import torch

        return torch.device(self.device_type)

    @cached_property
    def networks(self) -> Sequence[nn.Module]:
        """The network that the graph was made of, which torch computes."""
        from asdf.interchange import read_detector

        return [read_detector(NETWORK)[0]]

    def use_threads(self, threads: int) -> None:
        """Compute with this number of threads."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        options.intra_op_num_threads = threads
        # Long recordings would keep the memory of their largest batch.
        options.enable_cpu_mem_arena = False
        providers = ["CPUExecutionProvider"]
        self._session: Any = onnxruntime.InferenceSession(GRAPH, options, providers)

    def score_with_gradients(self, waveforms_BT: Tensor) -> Tensor:
        """Raise an error: only the engine 'plain' has gradients."""
        raise UsageError("engine 'graph' has no gradients: open the network with engine 'plain'.")

    def score_waveforms(
        self, waveforms: Sequence[np.ndarray], wanted: Collection[str] = ()
    ) -> Outcomes:
        """Score non-empty waveforms, (T,) each."""
        for key in wanted:
            self.require(key)
        scores = np.empty(len(waveforms), np.float32)
        embeddings: dict[int, np.ndarray] = {}
        outputs = ["logits", "embeddings"] if wanted else ["logits"]
        for batch in self.plan.batches(np.array([len(each) for each in waveforms], np.int64)):
            parts = [waveforms[index][: batch.samples] for index in batch.trials]
            waveforms_BT = np.stack([repeat_to(part, batch.samples) for part in parts])
            logits_B2, *others = self._session.run(outputs, {"waveforms": waveforms_BT})
            scores[batch.trials] = logits_B2[:, 1]
            for embeddings_BE in others:
                embeddings.update(zip(batch.trials.tolist(), embeddings_BE, strict=True))
        rows = [embeddings[index] for index in range(len(waveforms))] if wanted else []
        return Outcomes(scores, {EMBEDDING: rows} if wanted else {})
