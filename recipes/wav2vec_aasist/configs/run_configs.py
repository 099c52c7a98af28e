# The configs to start from; those of ../papers and ../demo are run by the same run.py. This file
# is read, never run. A block is a name, what it inherits, and its settings: in
# `child < parent < grandparent` the right-most is applied first, the block's own lines last.
#
#     python run.py CONFIG [CONFIG ...] [section.name=value ...]
#     python run.py --list [papers|demo]      the configs of a folder as a tree
#     python run.py --list CONFIG             the full description of one
#     python run.py CONFIG --explain          every value and the line that set it
#     python run.py CONFIG --dry-run          what would be done, without doing it


# Makes a demo corpus, trains a small wav2vec 2.0 + AASIST-L on it from scratch, scores and reports.
# About a minute on two CPU cores; it shows that everything works, not how good the network is.
#     python run.py quickstart
quickstart < from-scratch
paths.database_folder = 'output/demo_corpus'
paths.system_folder = 'quickstart'
recipe.training_sets = ('demo-train',)
recipe.validation_sets = ('demo-dev',)
recipe.evaluation_sets = ('demo-dev', 'demo-eval')
network.network_class = 'asdf.networks.SSL_AASIST_L'
front_end.architecture = 'tiny'
network.max_epochs = 15
network.epochs_per_train_call = 5
network.minibatch_size = 14
# Half a second: short clips train quickly; scoring still hears whole utterances.
network.train_clip_size = 8000
network.eval_minibatch_size_factor = 4
# One thread, so that the scores are the same on any machine's number of cores and on any number
# of processes.
computing.threads = 1

# What configs inherit that train a small network from random weights on a few hundred recordings.
# Not run by itself.
from-scratch
recipe.selected_epochs = ('best',)
front_end.normalize_waveforms = True
network.optimizer = 'adamw'
network.initial_learning_rate = 0.001
network.schedule = 'cosine'
network.warmup_steps = 30
network.weight_decay = 0.01
network.gradient_clip_norm = 1.0
# Reading a few hundred short files is quicker than starting processes for it.
computing.network_dataloader_workers = 0

# What training configs inherit. Not run by itself.
train
recipe.start_stage = 0
recipe.end_stage = 3
recipe.training_sets = ('asvspoof19',)
recipe.validation_sets = ('asvspoof19-dev',)
recipe.evaluation_sets = ('asvspoof19-dev', 'asvspoof19-eval')
recipe.selected_epochs = ('best',)
# (spoof, bona fide): ASVspoof 2019 has nine spoofs for each bona fide utterance.
network.class_weights = (0.1, 0.9)
network.optimizer = 'adam'
network.weight_decay = 0.0001
# Weights and Adam's two moments are 12 bytes per parameter: 3.8 GB for a network of XLS-R 300M's
# size.
network.keep_best_networks = 5
network.keep_last_networks = 2
network.min_evaluation_utterance_length_in_samples = 16000
network.max_evaluation_utterance_length_in_samples = 1000000

# XLS-R 300M + AASIST, the whole front end fine-tuned (Tak et al., Odyssey 2022). Best results. It
# takes 8.5 GiB of a GPU (computed, in bf16; "--dry-run" on a GPU measures a step) and about 1 GiB
# for CUDA, so a GPU of 12 GB holds it; on a smaller one 5.3 GiB with
# "front_end.gradient_checkpointing=True" (a third more time), or lower network.minibatch_size and
# raise network.optimizer_step_interval by the same factor. Downloads 1.2 GB of weights once;
# front_end.weights may also name your own xlsr2_300m.pt.
#     python run.py train-ssl-aasist
#     torchrun --nproc_per_node=4 run.py train-ssl-aasist network.minibatch_size=4
train-ssl-aasist < train
paths.system_folder = 'ssl-aasist'
# The lengths of utterances without speech activity detection, which published results do without.
paths.sad_folder = 'sad-off'
network.network_class = 'asdf.networks.SSL_AASIST'
front_end.architecture = 'wav2vec2_xlsr_300m'
front_end.weights = 'torchaudio:WAV2VEC2_XLSR_300M'
network.train_clip_size = 64600
network.minibatch_size = 14
# A pretrained front end forgets quickly at higher rates.
network.initial_learning_rate = 0.000001
network.schedule = 'constant'
network.max_epochs = 50
network.early_stop_evaluations = 7
# RawBoost: 5 for logical access, 3 for deepfakes over codecs.
rawboost.enabled = True
rawboost.algo = 5
rawboost.applyingRatio = 1.0

# The same with a front end that is not trained: far less memory and time, not as good.
#     python run.py train-frozen-ssl-aasist
train-frozen-ssl-aasist < train-ssl-aasist
paths.system_folder = 'frozen-ssl-aasist'
front_end.frozen = True
network.initial_learning_rate = 0.0001
network.minibatch_size = 32

# Quicker still: the frozen front end's features are computed once and saved on disk, 0.4 MB per
# clip. That needs the same clip of an utterance in every epoch, so there is no augmentation.
#     python run.py train-cached-ssl-aasist
train-cached-ssl-aasist < train-frozen-ssl-aasist
paths.system_folder = 'cached-ssl-aasist'
front_end.cache_features = True
network.clip_position = 'start'
rawboost.enabled = False

# AASIST on raw waveforms, without a pretrained front end (Jung et al., ICASSP 2022): a thousandth
# of XLS-R's parameters; good on ASVspoof 2019, does not generalise to other corpora.
# 'asdf.networks.AASIST_L' is the light one.
#     python run.py train-aasist
train-aasist < train
paths.system_folder = 'aasist'
paths.sad_folder = 'sad-off'
network.network_class = 'asdf.networks.AASIST'
network.train_clip_size = 64600
network.minibatch_size = 24
network.initial_learning_rate = 0.0001
network.schedule = 'cosine'
network.min_learning_rate = 0.000005
network.max_epochs = 100
network.average_best_networks = 5

# Scores and reports networks that exist; name the epochs, or 'best', 'average', 'last'.
#     python run.py eval-ssl-aasist recipe.selected_epochs="(17, 19)"
eval-ssl-aasist < train-ssl-aasist
recipe.start_stage = 2
recipe.end_stage = 3
recipe.selected_epochs = ('best', 'last')

# The same on corpora that training has not seen, as papers report them (python -m asdf corpora:
# all names).
#     python run.py eval-elsewhere
eval-elsewhere < eval-ssl-aasist
recipe.selected_epochs = ('best',)
recipe.evaluation_sets = ('asvspoof21-la:eval', 'asvspoof21-df:eval', 'in-the-wild')

# Trained on one corpus, scored on many, each with the trials and the 4 s that published numbers are
# of: one table with averages and pooled error rates (docs/reproduce.md). 'a+b' is one set of two
# corpora: MLAAD has spoofs alone, and M-AILABS the bona fide speech that belongs to them. Leave out
# what you do not have: "recipe.evaluation_sets=('in-the-wild', 'for:testing')".
#     python run.py generalisation
generalisation < train-ssl-aasist
paths.system_folder = 'generalisation'
recipe.evaluation_sets = (
    'asvspoof19:eval',
    'asvspoof21-la:eval',
    'asvspoof21-df:eval',
    'asvspoof5:eval',
    'in-the-wild',
    'for:testing',
    'librisevoc',
    'mlaad+m-ailabs',
)
network.min_evaluation_utterance_length_in_samples = 64600
network.max_evaluation_utterance_length_in_samples = 64600
