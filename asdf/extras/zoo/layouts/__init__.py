"""Published layouts: recognised, read and written."""
