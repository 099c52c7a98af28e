# XLS-R + Conformer with temporal-channel modelling (Truong et al., Interspeech 2024;
# ductuantruong/tcm_add, "main.py --algo 5"): logical access.
#
# Differs: only as paper-xlsr says.
#     python run.py paper-conformer-tcm
paper-conformer-tcm < paper-conformer
paths.system_folder = 'paper-conformer-tcm'
network.network_class = 'asdf.networks.SSL_ConformerTCM'

# The same for deepfakes ("main.py --algo 3"; Truong et al., Interspeech 2024).
#
# Differs: only as paper-xlsr says.
#     python run.py paper-conformer-tcm-df
paper-conformer-tcm-df < paper-conformer-tcm
paths.system_folder = 'paper-conformer-tcm-df'
recipe.evaluation_sets = ('asvspoof21-df:eval', 'in-the-wild')
rawboost.algo = 3
