# XLS-R + two columns of Mamba blocks (XLSR-Mamba: Xiao and Das, IEEE SPL 2025;
# swagshaw/XLSR-Mamba, "main.py --algo 5"): logical access, and In-the-Wild. Clips, minibatches, the
# end of training and the mean of the 5 best epochs are those of paper-conformer's code, from which
# that one derives. Its 12 encoders are 6 blocks in each of the two columns.
#
# Differs: as paper-xlsr says.
#
# Differs: In-the-Wild is scored by its first 66,800 samples as well, there by 64,600.
#     python run.py paper-xlsr-mamba
paper-xlsr-mamba < paper-conformer
paths.system_folder = 'paper-xlsr-mamba'
recipe.evaluation_sets = ('asvspoof21-la:eval', 'in-the-wild')
network.network_class = 'asdf.networks.SSL_Mamba'
back_end.mamba_dimension = 144
back_end.mamba_blocks = 6
back_end.mamba_states = 16

# The same for deepfakes ("main.py --algo 3"; Xiao and Das, IEEE SPL 2025).
#
# Differs: only as paper-xlsr says.
#     python run.py paper-xlsr-mamba-df
paper-xlsr-mamba-df < paper-xlsr-mamba
paths.system_folder = 'paper-xlsr-mamba-df'
recipe.evaluation_sets = ('asvspoof21-df:eval',)
rawboost.algo = 3
