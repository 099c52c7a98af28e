"""Embeddings of recordings: files, distances between sets, and plots."""
