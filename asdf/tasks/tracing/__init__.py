"""Source tracing: the attack, vocoder, language ... of a recording."""
