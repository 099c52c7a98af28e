"""Embeddings of recordings: their files, how far sets are apart, and pictures of them."""
