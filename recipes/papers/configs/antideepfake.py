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
