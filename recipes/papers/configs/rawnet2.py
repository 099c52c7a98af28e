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
