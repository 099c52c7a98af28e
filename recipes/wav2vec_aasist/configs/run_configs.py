# The run configs of this recipe. This file is read, never run. A block is a name, what it
# inherits, and its settings: `child < parent < grandparent`; the right-most is applied first, the
# block's own lines last.
#
#     python run.py CONFIG [CONFIG ...] [section.name=value ...]
#     python run.py --list                    these blocks as a tree, a line each
#     python run.py --list CONFIG             all that is said of one
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
# takes 8.5 GiB of a GPU (computed, in bf16; "--dry-run" on a GPU measures a step) and about 1 GiB
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
# The rates are a choice of ours: no number of an article belongs to this.
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

# The same in small: trained on the demo corpus, scored on real speech, which has to lie next to it:
# the corpus of mini-wav2vec, or a link to it, as output/demo_corpus/mini.
#     python run.py generalisation-small
generalisation-small < quickstart
paths.system_folder = 'generalisation-small'
recipe.evaluation_sets = ('demo-eval', 'mini:train', 'mini:dev')


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


# ResNet-18 with attentive pooling on a filter bank, in the sizes and with the optimiser of Zhang et
# al., IEEE SPL 2021 (yzyouzhang/AIR-ASVspoof). They train on 750 frames of LFCCs of 60 values, here
# "front_end.front_end_class='lfcc'", with OC-softmax, here "network.loss='oc_softmax'".
#     python run.py fbank-resnet18
fbank-resnet18 < train < sad-off
paths.system_folder = 'fbank-resnet18'
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'filter_bank'
back_end.back_end_class = 'resnet18'
network.score = 'difference'
network.class_weights = (1.0, 1.0)
# 750 frames of 10 ms.
network.train_clip_size = 120000
network.minibatch_size = 64
network.initial_learning_rate = 0.0003
network.weight_decay = 0.0
network.schedule = 'step'
network.step_epochs = 10
network.step_factor = 0.5
network.max_epochs = 100
network.early_stop_evaluations = 50


# Speech, singing, music and sound, bona fide and fake in one list (AT-ADD 2026, track 2), with all
# bands up to 24 kHz.
#     python run.py all-types
all-types < fbank-resnet18
paths.system_folder = 'all-types'
recipe.training_sets = ('at-add-track2:train',)
recipe.validation_sets = ('at-add-track2:dev',)
recipe.evaluation_sets = ('at-add-track2:dev',)
# All lengths in samples count at this rate: clips of 4 s, scores of 1 to 60 s.
audio.sample_rate = 48000
front_end.front_end_class = 'log_mel'
spectrum.filters = 128
network.train_clip_size = 192000
network.min_evaluation_utterance_length_in_samples = 48000
network.max_evaluation_utterance_length_in_samples = 2880000

# The band of a telephone, 8 kHz, and its codecs in training.
#     python run.py telephone
telephone < fbank-resnet18
paths.system_folder = 'telephone'
audio.sample_rate = 8000
front_end.front_end_class = 'log_mel'
augmentation.chain = ('codec',)
augmentation.codecs = ('mu-law', 'a-law', 'gsm')
network.train_clip_size = 32000
network.min_evaluation_utterance_length_in_samples = 8000
network.max_evaluation_utterance_length_in_samples = 480000


# What the configs of papers inherit; not run by itself. A config 'paper-...' has the numbers of the
# code that its authors published, and of the paper where a comment says so; each difference stands
# in a line that begins with "Differs". README.md has the published error rates.
#
# Differs, in all: seeds, so all that is drawn; and the last minibatch of an epoch is trained on if
# it is short, which most of the codes drop.
# On N processes set network.global_minibatch_size to the paper's minibatch. In bf16, on a GPU by
# "computing.precision='auto'", training takes less memory and time.
paper < train < sad-off
recipe.training_sets = ('asvspoof19',)
recipe.validation_sets = ('asvspoof19-dev',)
network.optimizer = 'adam'
network.adam_betas = (0.9, 0.999)
network.weight_decay = 0.0001
# On all parameters, those of the norms and biases included.
network.weight_decay_skiplist = ()
# (spoof, bona fide)
network.class_weights = (0.1, 0.9)
# 4 s, in scoring too: longer utterances are cut to their first, shorter ones are repeated.
network.train_clip_size = 64600
network.min_evaluation_utterance_length_in_samples = 64600
network.max_evaluation_utterance_length_in_samples = 64600
# None of the codes turns mixed precision on.
computing.precision = 'fp32'

# AASIST (Jung et al., ICASSP 2022; clovaai/aasist, config/AASIST.conf).
#
# Differs: the mean is that of the 5 epochs with the lowest development EER, their batch norm
# statistics included; there of all epochs that reached the lowest so far (SWA), after which the
# statistics are computed anew on the training set.
#
# Differs: the development set alone chooses; there the network with the lowest t-DCF on the
# evaluation set is kept as best.pth.
#     python run.py paper-aasist
#     python run.py paper-aasist network.network_class=asdf.networks.AASIST_L
paper-aasist < paper
paths.system_folder = 'paper-aasist'
recipe.evaluation_sets = ('asvspoof19-dev', 'asvspoof19-eval')
recipe.selected_epochs = ('best', 'average')
network.network_class = 'asdf.networks.AASIST'
network.clip_position = 'random'
network.minibatch_size = 24
network.initial_learning_rate = 0.0001
# By step, over all 100 epochs.
network.schedule = 'cosine'
network.min_learning_rate = 0.000005
network.max_epochs = 100
network.validation_metric = 'eer'
network.average_best_networks = 5

# What the papers with a fine-tuned XLS-R 300M inherit; not run by itself. Their codes derive from
# TakHemlata/SSL_Anti-spoofing.
#
# Differs: RawBoost comes after the cut to 4 s; there the whole utterance is boosted, then cut.
#
# Differs: the development set is scored as it is; there RawBoost is applied to it as well.
#
# Differs: the lowest Cllr on the development set stands for the lowest loss. With the class weights
# both classes count nearly alike in that loss too (0.9 x 2,548 and 0.1 x 22,296 utterances), so it
# is about Cllr times ln 2.
#
# Differs: for Cllr a score is the difference of the logits, less a constant; there it is the bona
# fide logit ("network.score='bona_fide'", with another network.validation_metric).
#
# XLS-R has no dropout here or there: in the configuration that the authors' code reads, every
# dropout and the layer drop are 0.
paper-xlsr < paper
front_end.architecture = 'wav2vec2_xlsr_300m'
front_end.weights = 'torchaudio:WAV2VEC2_XLSR_300M'
front_end.frozen = False
network.clip_position = 'start'
network.initial_learning_rate = 0.000001
network.schedule = 'constant'
network.score = 'llr'
network.validation_metric = 'cllr'
rawboost.enabled = True
rawboost.applyingRatio = 1.0

# XLS-R + AASIST for logical access (Tak et al., Odyssey 2022; TakHemlata/SSL_Anti-spoofing,
# main_SSL_LA.py).
#
# Differs: 'best' is chosen as above; there all epochs are saved, with their development losses in
# the log, and the choice is left to the reader.
#     python run.py paper-ssl-aasist-la
paper-ssl-aasist-la < paper-xlsr
paths.system_folder = 'paper-ssl-aasist-la'
recipe.evaluation_sets = ('asvspoof21-la:eval',)
network.network_class = 'asdf.networks.SSL_AASIST'
network.minibatch_size = 14
network.max_epochs = 100
rawboost.algo = 5

# The same for deepfakes over codecs (Tak et al., Odyssey 2022; main_SSL_DF.py). In-the-Wild is of
# later papers.
#
# Differs: as paper-ssl-aasist-la.
#     python run.py paper-ssl-aasist-df
paper-ssl-aasist-df < paper-ssl-aasist-la
paths.system_folder = 'paper-ssl-aasist-df'
recipe.evaluation_sets = ('asvspoof21-df:eval', 'in-the-wild')
rawboost.algo = 3

# XLS-R + sensitive layer selection (Zhang et al., ACM MM 2024; QiShanZhang/SLSforASVspoof-2021-DF:
# the command of its README; main.py by itself has minibatches of 14 and 100 epochs). Training ends
# after the first epoch whose training loss is not lower than before, by the plateau rule.
#
# Differs: that training loss is the mean over the epoch by class weights; there the means of the
# minibatches are averaged by their sizes, so of five utterances a bona fide one counts for more or
# less by what else is drawn, and training may end after another epoch.
#
# Differs: 'best' is by the development set, which there is not used: the last epoch but one is
# taken. If training ended after epoch 7, that is scored by "recipe.selected_epochs=(6,)" and
# "recipe.start_stage=2".
#     python run.py paper-sls
paper-sls < paper-xlsr
paths.system_folder = 'paper-sls'
recipe.evaluation_sets = ('asvspoof21-df:eval', 'asvspoof21-la:eval', 'in-the-wild')
network.network_class = 'asdf.networks.SSL_SLS'
back_end.sls_samples = 64600
back_end.sls_hidden = 1024
network.minibatch_size = 5
network.max_epochs = 50
network.schedule = 'plateau'
network.min_loss_change_ratio = 0.0
network.max_consecutive_lr_updates = 1
rawboost.algo = 3

# XLS-R + Nes2Net-X (Liu et al., IEEE TIFS 2025; Liu-Tianchi/Nes2Net_ASVspoof_ITW: the command of
# its README; main.py by itself has a rate of 1e-6 and RawBoost 8).
#
# Differs: 'best' is the epoch of the lowest Cllr. There epochs with a new lowest development loss
# are saved, with RawBoost and without, and the README takes the one with the lowest EER among them.
#
# Differs: one epoch is scored. The paper's first row (2021 DF: 1.49, mean over runs 1.78) is of the
# mean of 5 checkpoints: "network.average_best_networks=5", "network.keep_best_networks=5" and
# "recipe.selected_epochs=('average',)".
#
# Differs: In-the-Wild is cut to 4 s as well; there it is scored whole: once trained, with
# "recipe.start_stage=2 recipe.evaluation_sets=('in-the-wild',)" and
# "network.max_evaluation_utterance_length_in_samples=1000000".
#     python run.py paper-nes2net-x
paper-nes2net-x < paper-xlsr
paths.system_folder = 'paper-nes2net-x'
recipe.evaluation_sets = ('asvspoof21-la:eval', 'asvspoof21-df:eval', 'in-the-wild')
network.network_class = 'asdf.networks.SSL_Nes2NetX'
back_end.nes2net_splits = (8, 8)
back_end.nes2net_dilation = 2
back_end.nes2net_squeeze = 1
back_end.nes2net_pooling = 'mean'
network.minibatch_size = 12
network.initial_learning_rate = 0.00000025
network.max_epochs = 100
rawboost.algo = 4

# XLS-R + Conformer with a class token, fixed size (Rosello et al., Interspeech 2023;
# ErosRos/conformer-based-classifier-for-anti-spoofing, main.py). Training ends after 7 epochs
# without a lower development loss, or 75; the 5 best are averaged.
#
# Differs: only as paper-xlsr says.
#     python run.py paper-conformer
paper-conformer < paper-xlsr
paths.system_folder = 'paper-conformer'
recipe.evaluation_sets = ('asvspoof21-la:eval', 'asvspoof21-df:eval')
recipe.selected_epochs = ('average',)
network.network_class = 'asdf.networks.SSL_Conformer'
back_end.conformer_dimension = 144
back_end.conformer_blocks = 4
back_end.conformer_heads = 4
back_end.conformer_kernel = 31
back_end.conformer_dropout = 0.0
# Not 64600, in these two.
network.train_clip_size = 66800
network.min_evaluation_utterance_length_in_samples = 66800
network.max_evaluation_utterance_length_in_samples = 66800
network.minibatch_size = 20
network.max_epochs = 75
network.early_stop_evaluations = 7
network.keep_best_networks = 5
network.average_best_networks = 5
rawboost.algo = 5

# XLS-R + Conformer with temporal-channel modelling (Truong et al., Interspeech 2024;
# ductuantruong/tcm_add, "main.py --algo 5"): logical access.
#
# Differs: only as paper-xlsr says.
#     python run.py paper-conformer-tcm
paper-conformer-tcm < paper-conformer
paths.system_folder = 'paper-conformer-tcm'
network.network_class = 'asdf.networks.SSL_ConformerTCM'

# The same for deepfakes ("main.py --algo 3"; Truong et al., Interspeech 2024).
#
# Differs: only as paper-xlsr says.
#     python run.py paper-conformer-tcm-df
paper-conformer-tcm-df < paper-conformer-tcm
paths.system_folder = 'paper-conformer-tcm-df'
recipe.evaluation_sets = ('asvspoof21-df:eval', 'in-the-wild')
rawboost.algo = 3

# XLS-R + two columns of Mamba blocks (XLSR-Mamba: Xiao and Das, IEEE SPL 2025;
# swagshaw/XLSR-Mamba, "main.py --algo 5"): logical access, and In-the-Wild. Clips, minibatches, the
# end of training and the mean of the 5 best epochs are those of paper-conformer's code, from which
# that one derives. Its 12 encoders are 6 blocks in each of the two columns.
#
# Differs: as paper-xlsr says.
#
# Differs: In-the-Wild is scored by its first 66,800 samples as well, there by 64,600.
#     python run.py paper-xlsr-mamba
paper-xlsr-mamba < paper-conformer
paths.system_folder = 'paper-xlsr-mamba'
recipe.evaluation_sets = ('asvspoof21-la:eval', 'in-the-wild')
network.network_class = 'asdf.networks.SSL_Mamba'
back_end.mamba_dimension = 144
back_end.mamba_blocks = 6
back_end.mamba_states = 16

# The same for deepfakes ("main.py --algo 3"; Xiao and Das, IEEE SPL 2025).
#
# Differs: only as paper-xlsr says.
#     python run.py paper-xlsr-mamba-df
paper-xlsr-mamba-df < paper-xlsr-mamba
paths.system_folder = 'paper-xlsr-mamba-df'
recipe.evaluation_sets = ('asvspoof21-df:eval',)
rawboost.algo = 3

# WavLM Base+ fine-tuned with MHFA on ASVspoof 5 (MHFA: Peng et al., SLT 2022; zlin0/wedefense,
# egs/detection/asvspoof5/v15_ssl_mhfa, conf/MHFA_wavlmplus-FT.yaml on one GPU, with its rates
# halved as train.py does it for a minibatch of 32).
# Its factor 0.1 of the front end's gradients (feature_grad_mult) is left out: AdamW divides
# gradients by their size, so a factor changes next to nothing. The front end learns at the same
# rate there, too: train.py does not pass the scheduler what its frontend_lr_ratio needs.
#
# Differs: features enter MHFA as they are; there their mean over time is subtracted.
#
# Differs: the mean is that of the 2 epochs with the lowest development EER; there of the last 2
# saved ones, without a development set.
#
# Differs: no dropout or layer drop in WavLM; there what the configuration in its checkpoint says.
#
# Differs: utterances below 1 s are repeated for scoring; there they are scored as they are.
#     python run.py paper-mhfa-asvspoof5
paper-mhfa-asvspoof5 < paper
paths.system_folder = 'paper-mhfa-asvspoof5'
recipe.training_sets = ('asvspoof5:train',)
recipe.validation_sets = ('asvspoof5:dev',)
recipe.evaluation_sets = ('asvspoof5:dev', 'asvspoof5:eval')
recipe.selected_epochs = ('average',)
network.network_class = 'asdf.networks.SSL_MHFA'
front_end.architecture = 'wavlm_base'
front_end.weights = 'torchaudio:WAVLM_BASE_PLUS'
front_end.frozen = False
back_end.mhfa_heads = 32
back_end.mhfa_compression = 128
back_end.mhfa_embedding = 256
# 150 frames of 20 ms; shorter than 50 frames: not trained on.
network.train_clip_size = 48000
network.clip_position = 'random'
network.min_train_utterance_length_in_samples = 16000
network.min_evaluation_utterance_length_in_samples = 16000
network.max_evaluation_utterance_length_in_samples = 1000000
network.minibatch_size = 32
network.optimizer = 'adamw'
network.weight_decay = 0.0000001
network.class_weights = (1.0, 1.0)
# From 1e-4 to 1e-6, times 32 / 64; published_schedules.py lies next to run.py.
network.initial_learning_rate = 0.00005
network.min_learning_rate = 0.0000005
network.schedule = 'published_schedules.wedefense_exponential'
network.max_epochs = 5
network.score = 'llr'
network.validation_metric = 'eer'
network.average_best_networks = 2

# WavLM Large + Nes2Net-X on ASVspoof 5 (Liu et al., IEEE TIFS 2025;
# Liu-Tianchi/Nes2Net_ASVspoof_ITW, branch asvspoof5: config/WavLM_Nes2Net_ASVspoof5.conf, main.py,
# data_utils.py). Half of the examples are augmented, by noise or by a room. It needs MUSAN and
# RIRS_NOISES in the database's folder.
#
# Differs: a noise is a recording of MUSAN at 5 to 20 dB; there at 0 to 15 dB of its noise, 5 to 25
# of its music, 13 to 20 of 3 to 8 of its voices together. One example in 16 has noise and a room,
# and 9 in 16 have neither; there none has both, and half have neither.
#
# Differs: noises and rooms are put on the clip; there on the whole utterance, before the cut.
#
# Differs: the first 10 epochs are validated as well; there they are not, and cannot be the best.
#
# Differs: no dropout or layer drop in WavLM; there what the configuration in its checkpoint says.
#     python run.py paper-wavlm-nes2net-asvspoof5
paper-wavlm-nes2net-asvspoof5 < paper
paths.system_folder = 'paper-wavlm-nes2net-asvspoof5'
recipe.training_sets = ('asvspoof5:train',)
recipe.validation_sets = ('asvspoof5:dev',)
recipe.evaluation_sets = ('asvspoof5:dev', 'asvspoof5:eval')
network.network_class = 'asdf.networks.SSL_Nes2NetX'
front_end.architecture = 'wavlm_large'
front_end.weights = 'torchaudio:WAVLM_LARGE'
front_end.frozen = False
back_end.nes2net_splits = (8, 8)
back_end.nes2net_dilation = 1
back_end.nes2net_squeeze = 1
back_end.nes2net_pooling = 'mean'
network.clip_position = 'random'
network.minibatch_size = 64
network.initial_learning_rate = 0.000001
# By step, over all 100 epochs.
network.schedule = 'cosine'
network.min_learning_rate = 0.0000001
network.max_epochs = 100
network.early_stop_evaluations = 5
network.score = 'bona_fide'
network.validation_metric = 'eer'
augmentation.chain = ('noise', 'reverberation')
augmentation.noise_folders = ('musan/noise', 'musan/music', 'musan/speech')
augmentation.noise_probability = 0.25
augmentation.noise_snr_min_db = 5.0
augmentation.noise_snr_max_db = 20.0
augmentation.reverberation_folders = ('RIRS_NOISES',)
augmentation.reverberation_probability = 0.25

# WavLM Large + AASIST, to which they compare it (Liu et al., IEEE TIFS 2025; the same branch's
# config/WavLM_AASIST_ASVspoof5.conf): AASIST's graphs in the sizes of SSL_AASIST, and all else
# alike.
#
# Differs: only as paper-wavlm-nes2net-asvspoof5.
#     python run.py paper-wavlm-aasist-asvspoof5
paper-wavlm-aasist-asvspoof5 < paper-wavlm-nes2net-asvspoof5
paths.system_folder = 'paper-wavlm-aasist-asvspoof5'
network.network_class = 'asdf.networks.SSL_AASIST'

# AntiDeepfake's post-training of MMS-300M with RawBoost (Ge et al., "Post-training for Deepfake
# Speech Detection", 2025; nii-yamagishilab/AntiDeepfake, hparams/mms_300m.yaml, dataio/dataio.py,
# main.py). Minibatches of up to 100 s, padded without masks; recordings above 13 s cropped to 10 to
# 13 s.
#
# Differs: trained on what ASDF reads by name of its 56,000 hours of genuine and 18,000 of
# artificial speech; protocols/README.md there has all sources. Add yours to recipe.training_sets.
#
# Differs: its 20 groups by length have bounds by a log-normal distribution up to 100 s, whatever
# recordings there are, and by their lengths before they are cropped; here they are of equal size.
#
# Differs: 4 processes with a minibatch each are one step here and there, but the loss is the mean
# of all their utterances; there the mean of their means. A minibatch of one recording is never
# alone.
#
# Differs: the first step has a rate of 1 / 80,000 of the highest; there the whole of it, and the
# second 0.
#
# Differs: 'best' is by the development EER of whole recordings; there in minibatches of 10, padded.
#     python run.py paper-antideepfake --dry-run
#     torchrun --nproc_per_node=4 run.py paper-antideepfake
paper-antideepfake < paper
paths.system_folder = 'paper-antideepfake'
recipe.training_sets = ('asvspoof19', 'asvspoof5:train', 'codecfake-xie:train', 'decro:en_train', 'decro:ch_train', 'dfadd:train', 'diffssd:train', 'spoofceleb:train')
recipe.validation_sets = ('asvspoof19-dev', 'asvspoof5:dev')
recipe.evaluation_sets = ('in-the-wild', 'for-testing', 'deepfake-eval-2024:test')
network.network_class = 'asdf.networks.SSL_Linear'
front_end.architecture = 'wav2vec2_xlsr_300m'
front_end.weights = 'hub:facebook/mms-300m'
front_end.normalize_waveforms = True
front_end.frozen = False
lengths.minibatch_s = 100
lengths.min_crop_s = 10
lengths.max_crop_s = 13
lengths.buckets = 20
lengths.masks = False
# As many as fit into the seconds.
network.minibatch_size = 10000
# 4 s, of which a batch of 25 is as large as a minibatch; recordings are scored as a whole.
network.eval_minibatch_size_factor = 'auto'
network.min_evaluation_utterance_length_in_samples = 400
network.max_evaluation_utterance_length_in_samples = 1000000
network.optimizer = 'torch.optim.AdamW'
optimizer.eps = 0.000001
network.weight_decay = 0.01
network.class_weights = (1.0, 1.0)
network.initial_learning_rate = 0.0000001
network.warmup_steps = 80000
network.schedule = 'published_schedules.warm_and_decay'
network.max_epochs = 30
network.max_steps = 800000
network.evaluation_interval_steps = 100000
network.gradient_clip_norm = 100.0
network.score = 'bona_fide'
network.validation_metric = 'eer'
computing.precision = 'fp16'
rawboost.enabled = True
rawboost.applyingRatio = 1.0
rawboost.algo = 5

# LFCC-LCNN, a baseline of ASVspoof 2021 (Wang and Yamagishi, Interspeech 2021;
# asvspoof-challenge/2021, LA/Baseline-LFCC-LCNN, project/baseline_LA: 00_train.sh and model.py).
#
# Differs: trained from random weights, as in the paper; 00_train.sh starts from the released ones.
#
# Differs: trained on random 4 s; there on whole utterances, in minibatches of similar lengths.
#
# Differs: a frame lies wholly in its clip; there zeros around it make one or two frames more.
#
# Differs: two outputs and cross-entropy; there one, of which the sigmoid is trained. It is the
# difference of the two, which is the score less a constant.
#
# Differs: 'best' and the end are by Cllr, where both classes count alike; there by the unweighted
# development loss. Utterances below 1 s are repeated for scoring.
#     python run.py paper-lfcc-lcnn
paper-lfcc-lcnn < paper
paths.system_folder = 'paper-lfcc-lcnn'
recipe.evaluation_sets = ('asvspoof19-eval', 'asvspoof21-la:eval', 'asvspoof21-df:eval')
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'lfcc'
spectrum.window = 320
spectrum.hop = 160
spectrum.n_fft = 1024
spectrum.filters = 20
spectrum.high_hz = 4000.0
spectrum.deltas = 2
back_end.back_end_class = 'lcnn'
back_end.lcnn_dropout = 0.7
network.clip_position = 'random'
network.min_evaluation_utterance_length_in_samples = 16000
network.max_evaluation_utterance_length_in_samples = 1000000
network.class_weights = (1.0, 1.0)
network.score = 'llr'
network.validation_metric = 'cllr'
network.minibatch_size = 64
network.initial_learning_rate = 0.0003
network.weight_decay = 0.0
network.schedule = 'step'
network.step_epochs = 10
network.step_factor = 0.5
network.max_epochs = 100
network.early_stop_evaluations = 50

# The best of the comparison in that paper, of which the baseline comes (Wang and Yamagishi,
# Interspeech 2021; nii-yamagishilab/project-NN-Pytorch-scripts, project/03-asvspoof-mega,
# lfcc-lcnn-lstmsum-p2s): P2SGrad, and LFCCs up to 8 kHz.
#
# Differs: cosines with the 96 values that are averaged over time; there a linear layer makes them
# 64 first.
#
# Differs: 'best' and the end are by EER; there by the development loss. Clips and lengths as in
# paper-lfcc-lcnn.
#     python run.py paper-lfcc-lcnn-p2sgrad
paper-lfcc-lcnn-p2sgrad < paper-lfcc-lcnn
paths.system_folder = 'paper-lfcc-lcnn-p2sgrad'
recipe.evaluation_sets = ('asvspoof19-eval',)
network.loss = 'p2sgrad'
network.score = 'bona_fide'
network.validation_metric = 'eer'
spectrum.n_fft = 512
spectrum.high_hz = 8000.0

# RawNet2, a baseline of ASVspoof 2021 (Tak et al., ICASSP 2021; asvspoof-challenge/2021,
# LA/Baseline-RawNet2), in the sizes of the code; the paper's network is larger, with
# "back_end.rawnet2_filters=128 back_end.rawnet2_channels=512". Adam without AMSGrad, as in main.py,
# which does not read that its yaml file asks for it.
#
# Differs: 'best' is by EER on the development set; there by accuracy, if above 99 %.
#     python run.py paper-rawnet2
paper-rawnet2 < paper
paths.system_folder = 'paper-rawnet2'
recipe.evaluation_sets = ('asvspoof21-la:eval', 'asvspoof21-df:eval')
network.network_class = 'asdf.networks.RawNet2'
back_end.rawnet2_filters = 20
back_end.rawnet2_taps = 1024
back_end.rawnet2_channels = 128
back_end.rawnet2_layers = 3
back_end.rawnet2_recurrent = 1024
back_end.rawnet2_embedding = 1024
network.clip_position = 'start'
network.minibatch_size = 32
network.initial_learning_rate = 0.0001
network.schedule = 'constant'
network.max_epochs = 100
network.validation_metric = 'eer'


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
