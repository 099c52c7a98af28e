"""A training step of transformers' Trainer, alternating with one of ASDF.

The Trainer owns its loop, so ASDF's step is taken in a callback at the end of each of the Trainer's
steps. The Trainer's own step is the time between: the next minibatch from memory, forward,
backward, optimiser, its bookkeeping.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.ssl_aasist import AASISTBackEnd
from asdf.networks.front_ends.architectures import Architecture
from asdf.settings.sections import Sections

WARM_UP = 2


class TransformersDetector(nn.Module):
    """transformers' Wav2Vec2Model with one of ASDF's architectures, without dropout; and AASIST."""

    def __init__(self, architecture: Architecture) -> None:
        from transformers import Wav2Vec2Config, Wav2Vec2Model

        super().__init__()
        channels, kernels, strides = zip(*architecture.conv_layers, strict=True)
        config = Wav2Vec2Config(
            hidden_size=architecture.dimension,
            num_hidden_layers=architecture.layers,
            num_attention_heads=architecture.heads,
            intermediate_size=architecture.feed_forward,
            conv_dim=channels,
            conv_kernel=kernels,
            conv_stride=strides,
            conv_bias=architecture.conv_bias,
            feat_extract_norm="group" if architecture.extractor_mode == "group_norm" else "layer",
            do_stable_layer_norm=architecture.layer_norm_first,
            num_conv_pos_embeddings=architecture.pos_conv_kernel,
            num_conv_pos_embedding_groups=architecture.pos_conv_groups,
            feat_proj_dropout=0.0,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            layerdrop=0.0,
            apply_spec_augment=False,
        )
        self.front_end = Wav2Vec2Model(config)
        self.back_end = AASISTBackEnd(architecture.dimension)

    def forward(self, input_values: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return loss and logits, as the Trainer requires."""
        _, logits = self.back_end(self.front_end(input_values).last_hidden_state)
        return {"loss": F.cross_entropy(logits.float(), labels), "logits": logits}


def compare_steps_with_trainer(
    settings: Sections,
    batch: tuple[Tensor, Tensor],
    asdf: Callable[[], Any],
    precision: str,
    rounds: int,
) -> dict[str, list[float]]:
    """Return seconds of each step of the Trainer ('trainer') and of each call of `asdf`."""
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    times: dict[str, list[float]] = {"trainer": [], "asdf": []}
    waveforms, labels = (tensor.cpu() for tensor in batch)
    device, net = batch[0].device, settings.network

    class InTurns(TrainerCallback):
        since = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            trainer_done = _now(device)
            asdf()
            asdf_done = _now(device)
            if state.global_step > WARM_UP:
                times["trainer"].append(trainer_done - self.since)
                times["asdf"].append(asdf_done - trainer_done)
            self.since = asdf_done

    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=WARM_UP + rounds,
            per_device_train_batch_size=len(labels),
            learning_rate=net.initial_learning_rate,
            weight_decay=net.weight_decay,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            bf16=precision == "bf16",
            use_cpu=device.type == "cpu",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        examples = [
            {"input_values": x, "labels": y} for x, y in zip(waveforms, labels, strict=True)
        ]
        torch.manual_seed(0)
        network = TransformersDetector(Architecture.from_text(settings.front_end.architecture))
        trainer = Trainer(
            network, arguments, train_dataset=examples * (WARM_UP + rounds), callbacks=[InTurns()]
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return times


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
