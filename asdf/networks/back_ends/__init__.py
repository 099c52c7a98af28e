"""Back ends: what turns features into embeddings and logits. `back_end.py` is their base."""
