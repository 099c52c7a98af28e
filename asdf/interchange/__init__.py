"""Network files, and weights of other systems, in and out."""
