"""Which parameters of a front end learn: freezing, low-rank updates (LoRA), adapters, prompts."""
