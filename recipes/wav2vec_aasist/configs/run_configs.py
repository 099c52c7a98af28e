# The run configs of this recipe. This file is read, never run. A block is a name, what it
# inherits, and its settings: `child < parent < grandparent`; the right-most is applied first, the
# block's own lines last.
#
#     python run.py CONFIG [CONFIG ...] [section.name=value ...]
#     python run.py --list                    these blocks as a tree
#     python run.py CONFIG --explain          every value and the line that set it
#     python run.py CONFIG --dry-run          what would be done, without doing it


# Makes a demo corpus, trains a small wav2vec 2.0 + AASIST on it from scratch, scores and reports.
# Two minutes on two CPU cores; it shows that everything works, not how good the network is.
#     python run.py quickstart
quickstart < from-scratch
paths.database_folder = 'output/demo_corpus'
paths.system_folder = 'quickstart'
recipe.training_sets = ('demo-train',)
recipe.validation_sets = ('demo-dev',)
recipe.evaluation_sets = ('demo-dev', 'demo-eval')
front_end.architecture = 'tiny'
network.max_epochs = 20
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


# Stage 0 alone: measures how long the utterances are. The later configs inherit the choice of no
# speech activity detection; networks of this field use the silences around speech too, so 'off'
# is what published results use.
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
# takes 8.7 GiB of a GPU (computed, in bf16; "--dry-run" says it for any change) and about 1 GiB
# for CUDA, so a GPU of 12 GB holds it; on a smaller one 5.3 GiB with
# "front_end.gradient_checkpointing=True" (a third more time), or lower network.minibatch_size and
# raise network.optimizer_step_interval by the same factor. Downloads 1.2 GB of weights once;
# front_end.weights may also name your own xlsr2_300m.pt.
#     python run.py train-ssl-aasist
#     torchrun --nproc_per_node=4 run.py train-ssl-aasist network.minibatch_size=4
train-ssl-aasist < train < sad-off
paths.system_folder = 'ssl-aasist'
recipe.end_stage = 3
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

# XLS-R 1B, of which low-rank updates learn (LoRA): 1 % of its parameters, so that a GPU of 16 GB
# holds it: 13.2 GiB with CUDA's (computed, in bf16; fine-tuned as a whole it takes 22 GiB), and
# 5.3 GiB with "front_end.gradient_checkpointing=True". A network is 37 MB on the disk, with the
# moments 112 MB, and needs the front end's weights again, 3.9 GB that are downloaded once.
# "lora.decomposed=True" (DoRA) needs gradient checkpointing on such a GPU. The rates are a choice of
# ours: no number of an article belongs to this.
#     python run.py train-xlsr-1b-lora
train-xlsr-1b-lora < train-ssl-aasist
paths.system_folder = 'xlsr-1b-lora'
front_end.architecture = 'wav2vec2_xlsr_1b'
front_end.weights = 'torchaudio:WAV2VEC2_XLSR_1B'
lora.rank = 8
lora.alpha = 16
network.initial_learning_rate = 0.0001

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


# AASIST on raw waveforms, without a pretrained front end (Jung et al., ICASSP 2022): a thousandth
# of XLS-R's parameters; good on ASVspoof 2019, does not generalise to other corpora.
# 'asdf.networks.AASIST_L' is the light one.
#     python run.py train-aasist
train-aasist < train < sad-off
paths.system_folder = 'aasist'
recipe.end_stage = 3
network.network_class = 'asdf.networks.AASIST'
network.train_clip_size = 64600
network.minibatch_size = 24
network.initial_learning_rate = 0.0001
network.schedule = 'cosine'
network.min_learning_rate = 0.000005
network.max_epochs = 100
network.average_best_networks = 5


# RawNet2 on raw waveforms, the baseline of ASVspoof 2021 (Tak et al., ICASSP 2021), with the
# published hyperparameters (asvspoof-challenge/2021, LA/Baseline-RawNet2). One difference: 'best'
# is by EER, not by accuracy, on the development set. The paper's network is larger:
# back_end.rawnet2_filters=128 back_end.rawnet2_channels=512.
#     python run.py rawnet2
rawnet2 < train < sad-off
paths.system_folder = 'rawnet2'
network.network_class = 'asdf.networks.RawNet2'
# The first 4 s of each utterance, in scoring too.
network.train_clip_size = 64600
network.clip_position = 'start'
network.min_evaluation_utterance_length_in_samples = 64600
network.max_evaluation_utterance_length_in_samples = 64600
network.minibatch_size = 32
network.initial_learning_rate = 0.0001
network.weight_decay_skiplist = ()
network.schedule = 'constant'
network.max_epochs = 100


# LCNN with LSTM layers on LFCCs, another baseline of ASVspoof 2021, with its published
# hyperparameters (asvspoof-challenge/2021, LA/Baseline-LFCC-LCNN; Wang and Yamagishi, Interspeech
# 2021). Differences: trained on random 4 s of each utterance instead of whole ones in minibatches
# of similar lengths; two logits and cross-entropy, whose difference is the score, instead of one
# and binary cross-entropy; and training ends after 50 epochs without a better EER, instead of a
# lower loss, on the development set.
#     python run.py lfcc-lcnn
lfcc-lcnn < train < sad-off
paths.system_folder = 'lfcc-lcnn'
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'lfcc'
back_end.back_end_class = 'lcnn'
network.score = 'difference'
network.class_weights = (1.0, 1.0)
network.train_clip_size = 64600
network.minibatch_size = 64
network.initial_learning_rate = 0.0003
network.weight_decay = 0.0
network.schedule = 'step'
network.step_epochs = 10
network.step_factor = 0.5
network.max_epochs = 100
network.early_stop_evaluations = 50


# ResNet-18 with attentive pooling on a filter bank, in the sizes and with the optimiser of Zhang et
# al., IEEE SPL 2021 (yzyouzhang/AIR-ASVspoof). Differences: they train on LFCCs of 60 values, which
# front_end.front_end_class='lfcc' takes, of 750 frames, with OC-softmax; here it is cross-entropy.
#     python run.py fbank-resnet18
fbank-resnet18 < lfcc-lcnn
paths.system_folder = 'fbank-resnet18'
front_end.front_end_class = 'filter_bank'
back_end.back_end_class = 'resnet18'
# 750 frames of 10 ms.
network.train_clip_size = 120000


# Two sizes side by side, each on its own GPU; the second differs only in what stands below
# its name.
#     python run.py net & python run.py larger_net &
net < train-frozen-ssl-aasist
paths.system_folder = 'net'
computing.gpu_ids = (0,)
front_end.architecture = 'wav2vec2_base'
front_end.weights = 'torchaudio:WAV2VEC2_BASE'

larger_net < net
paths.system_folder = 'larger_net'
computing.gpu_ids = (1,)
front_end.architecture = 'wav2vec2_large'
front_end.weights = 'torchaudio:WAV2VEC2_LARGE'


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
