"""The command of embeddings: `embed`, which writes them."""
