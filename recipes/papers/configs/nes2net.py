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
