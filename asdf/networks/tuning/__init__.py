"""Training of parts of a front end: freezing, low-rank updates (LoRA)."""
