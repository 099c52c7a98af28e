"""From list files to batches: what is trained on and what is scored, in which order, read by whom."""
