"""Source tracing: which attack, vocoder, language ... a recording is of."""
