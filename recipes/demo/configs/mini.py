# A small corpus of real recordings in ASVspoof 2019 LA's layout; any folder with train_list.txt
# and dev_list.txt works. Real speech on two CPU cores, so both networks are small and the clips
# short.
#     python run.py mini-wav2vec paths.database_folder=/where/it/is
mini-wav2vec < from-scratch
paths.system_folder = 'mini-wav2vec'
recipe.training_sets = ('mini-train',)
recipe.validation_sets = ('mini-dev',)
recipe.evaluation_sets = ('mini-dev',)
front_end.architecture = 'small'
network.max_epochs = 40
network.epochs_per_train_call = 8
network.minibatch_size = 20
network.train_clip_size = 16000

# Raw AASIST takes a CPU core one second per clip of 4 s, so the clips are shorter and the epochs
# fewer than above, and only the first second of an utterance is scored: enough to see it learn,
# too little for a good network.
#     python run.py mini-aasist paths.database_folder=/where/it/is
mini-aasist < mini-wav2vec
paths.system_folder = 'mini-aasist'
network.network_class = 'asdf.networks.AASIST'
network.max_epochs = 10
network.epochs_per_train_call = 5
network.minibatch_size = 12
network.train_clip_size = 8000
network.max_evaluation_utterance_length_in_samples = 16000

# As mini-wav2vec, from bona fide speech alone: its spoofs are copies of it through simple vocoders,
# made anew in each epoch (docs/augmentation.md). It hears none of the synthesisers of the
# development set, two of which are vocoders of such kinds; so the EER says how far that leads.
#     python run.py mini-vocoded paths.database_folder=/where/it/is
mini-vocoded < mini-wav2vec
paths.system_folder = 'mini-vocoded'
vocoding.vocoders = ('griffin_lim', 'source_filter', 'lpc', 'phase')
vocoding.corpus_spoofs = False

# The best detector that two CPU cores train in minutes from those 600 recordings, without any
# pretrained weights: statistics of how band energies move in time (docs/reproduce.md), one
# hidden layer, and another 4 s of a recording in each epoch, half of them through a codec. Chosen
# by how it does on attacks and speakers that training does without.
#     python run.py mini-best paths.database_folder=/where/it/is
mini-best < from-scratch
paths.system_folder = 'mini-best'
recipe.training_sets = ('mini-train',)
recipe.validation_sets = ('mini-dev',)
recipe.evaluation_sets = ('mini-dev',)
recipe.selected_epochs = ('last',)
recipe.sampler = 'balanced_attacks'
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'moments'
# Nothing of the statistics learns.
front_end.frozen = True
back_end.back_end_class = 'mlp'
back_end.mlp_dropout = 0.5
augmentation.chain = ('codec',)
network.train_clip_size = 64000
network.minibatch_size = 64
network.max_epochs = 15
network.epochs_per_train_call = 5
network.weight_decay = 0.05
# Codecs take most of the time.
computing.network_dataloader_workers = 2
