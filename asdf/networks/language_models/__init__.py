"""Networks that are audio language models; `audio_language_model` defines the network."""
