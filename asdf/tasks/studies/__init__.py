"""Studies over runs: seeds, values left out of training, other corpora, varied settings."""
