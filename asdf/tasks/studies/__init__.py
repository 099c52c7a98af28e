"""Studies over runs: seeds, values left out of training, other corpora, settings that differ."""
