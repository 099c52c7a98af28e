# ResNet-18 with attentive pooling on a filter bank, in the sizes and with the optimiser of Zhang et
# al., IEEE SPL 2021 (yzyouzhang/AIR-ASVspoof). They train on 750 frames of LFCCs of 60 values, here
# "front_end.front_end_class='lfcc'", with OC-softmax, here "network.loss='oc_softmax'".
#     python run.py fbank-resnet18
fbank-resnet18 < train
paths.system_folder = 'fbank-resnet18'
paths.sad_folder = 'sad-off'
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
