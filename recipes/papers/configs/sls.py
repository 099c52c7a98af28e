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
