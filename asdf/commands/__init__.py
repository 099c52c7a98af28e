"""The commands of `python -m asdf` for what every run needs, and what several commands share."""
