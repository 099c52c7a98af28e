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
