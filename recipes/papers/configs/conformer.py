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
