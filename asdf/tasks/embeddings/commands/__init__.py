"""The commands of embeddings: `embed`, which writes them, and `distance`, which compares them."""
