"""Sets of one class: recall and errors at a threshold that other trials have set."""
