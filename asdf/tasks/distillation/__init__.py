"""Learning from another detector: a teacher's scores and embeddings as targets of a student."""
