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
