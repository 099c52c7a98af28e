# What the configs of papers inherit; not run by itself. A config 'paper-...' has the numbers of the
# code that its authors published, and of the paper where a comment says so; each difference stands
# in a line that begins with "Differs". README.md has the published error rates.
#
# Differs, in all: seeds, so all that is drawn; and the last minibatch of an epoch is trained on if
# it is short, which most of the codes drop.
# On N processes set network.global_minibatch_size to the paper's minibatch. In bf16, on a GPU by
# "computing.precision='auto'", training takes less memory and time.
paper < train
paths.sad_folder = 'sad-off'
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
