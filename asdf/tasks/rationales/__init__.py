"""Texts that an audio language model learns to say besides its answer."""
