"""What a score supports: the page of a case, and what a score depends on."""
