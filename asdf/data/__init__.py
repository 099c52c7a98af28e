"""From list files to batches: the data for training and scoring, its order, and its readers."""
