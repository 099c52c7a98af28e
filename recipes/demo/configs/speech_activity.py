# Stage 0 alone: measures how long the utterances are, without speech activity detection. The
# training configs use these lengths: networks of this field use the silences around speech too, so
# 'off' is what published results use.
#     python run.py sad-off
sad-off
recipe.start_stage = 0
recipe.end_stage = 0
paths.sad_folder = 'sad-off'
sad.mode = 'off'

# Trims the silent ends: a network can then not decide by them (it often does, and fails on
# trimmed corpora).
#     python run.py sad-endpoint
sad-endpoint < sad-off
paths.sad_folder = 'sad-endpoint'
sad.mode = 'endpoint'
