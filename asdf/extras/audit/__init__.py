"""Audits of corpora: shortcuts that reveal the class without listening to speech, and errors."""
