"""Rationales: texts that an audio language model learns besides its answer."""
