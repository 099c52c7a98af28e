"""Back ends, which map features to embeddings and logits; `back_end.py` has the base class."""
