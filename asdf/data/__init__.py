"""From list files to batches: what is trained on and scored, in which order, and read by whom."""
