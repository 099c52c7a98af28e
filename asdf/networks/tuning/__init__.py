"""Which parameters of a front end learn: freezing, low-rank updates (LoRA), and adapters."""
