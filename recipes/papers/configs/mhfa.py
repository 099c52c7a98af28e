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
# From 1e-4 to 1e-6, times 32 / 64; published_schedules.py is next to run.py.
network.initial_learning_rate = 0.00005
network.min_learning_rate = 0.0000005
network.schedule = 'published_schedules.wedefense_exponential'
network.max_epochs = 5
network.score = 'llr'
network.validation_metric = 'eer'
network.average_best_networks = 2
