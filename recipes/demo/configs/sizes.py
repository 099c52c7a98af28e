# Two sizes side by side, each on its own GPU; the second differs only in what stands below
# its name.
#     python run.py net & python run.py larger_net &
net < train-frozen-ssl-aasist
paths.system_folder = 'net'
computing.gpu_ids = (0,)
front_end.architecture = 'wav2vec2_base'
front_end.weights = 'torchaudio:WAV2VEC2_BASE'

larger_net < net
paths.system_folder = 'larger_net'
computing.gpu_ids = (1,)
front_end.architecture = 'wav2vec2_large'
front_end.weights = 'torchaudio:WAV2VEC2_LARGE'

# XLS-R 1B with low-rank updates (LoRA): 1 % of its parameters are trained, so that a GPU of 16 GB
# holds it: 13.2 GiB with CUDA's (computed, in bf16; fine-tuned as a whole it takes 22 GiB), and
# 5.3 GiB with "front_end.gradient_checkpointing=True". A network is 37 MB on the disk, with the
# moments 112 MB, and needs the front end's weights again, 3.9 GB that are downloaded once.
# The rates are our choice: they reproduce no published result.
#     python run.py train-xlsr-1b-lora
train-xlsr-1b-lora < train-ssl-aasist
paths.system_folder = 'xlsr-1b-lora'
front_end.architecture = 'wav2vec2_xlsr_1b'
front_end.weights = 'torchaudio:WAV2VEC2_XLSR_1B'
lora.rank = 8
lora.alpha = 16
network.initial_learning_rate = 0.0001
