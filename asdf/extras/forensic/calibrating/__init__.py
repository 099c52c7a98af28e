"""The page of a case: recordings, a network's statements about them, and their value."""
