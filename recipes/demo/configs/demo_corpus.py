# Finds the spoofed parts of recordings that are bona fide elsewhere: a small wav2vec 2.0 from
# scratch with a score for every 20 ms next to that of the recording (docs/localisation.md). Makes
# the demo corpus with its partially spoofed recordings; two minutes on two CPU cores.
#     python run.py demo-partial
demo-partial < from-scratch
paths.database_folder = 'output/demo_corpus'
paths.system_folder = 'demo-partial'
recipe.training_sets = ('demo-partial-train',)
recipe.validation_sets = ('demo-partial-dev',)
recipe.evaluation_sets = ('demo-partial-dev', 'demo-partial-eval')
network.network_class = 'asdf.networks.ComposedDetector'
front_end.architecture = 'tiny'
back_end.back_end_class = 'asp'
localisation.enabled = True
# The EER of the frames of the development set chooses the network.
network.validation_metric = 'frame_eer'
network.max_epochs = 30
network.epochs_per_train_call = 10
network.minibatch_size = 16
network.train_clip_size = 16000
computing.threads = 1

# Traces which vocoder a spoof of the demo corpus is of, next to detection: A01, A02 and A03 are
# learnt, and A04 of the evaluation set is unknown (docs/source_tracing.md). About a minute on two
# CPU cores.
#     python run.py demo-sources
demo-sources < quickstart
paths.system_folder = 'demo_sources'
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'spectrogram'
back_end.back_end_class = 'asp'
source.column = 'attack'
network.max_epochs = 30
network.epochs_per_train_call = 10
network.train_clip_size = 16000
network.validation_metric = 'source_accuracy'

# `generalisation` in small: trained on the demo corpus, scored on real speech, the corpus of
# mini-wav2vec, which has to be there or linked as output/demo_corpus/mini.
#     python run.py generalisation-small
generalisation-small < quickstart
paths.system_folder = 'generalisation-small'
recipe.evaluation_sets = ('demo-eval', 'mini:train', 'mini:dev')
