"""The training loop and its parts: steps, losses, optimisers, schedules, checkpoints."""
