"""Distillation: a teacher's scores and embeddings are the targets of a student."""
