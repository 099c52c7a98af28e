"""Sets of one class: recall and errors at a threshold from other trials."""
