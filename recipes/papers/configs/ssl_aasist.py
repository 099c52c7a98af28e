# XLS-R + AASIST for logical access (Tak et al., Odyssey 2022; TakHemlata/SSL_Anti-spoofing,
# main_SSL_LA.py).
#
# Differs: 'best' is chosen as above; there all epochs are saved, with their development losses in
# the log, and the choice is left to the reader.
#     python run.py paper-ssl-aasist-la
paper-ssl-aasist-la < paper-xlsr
paths.system_folder = 'paper-ssl-aasist-la'
recipe.evaluation_sets = ('asvspoof21-la:eval',)
network.network_class = 'asdf.networks.SSL_AASIST'
network.minibatch_size = 14
network.max_epochs = 100
rawboost.algo = 5

# The same for deepfakes over codecs (Tak et al., Odyssey 2022; main_SSL_DF.py). In-the-Wild is of
# later papers.
#
# Differs: as paper-ssl-aasist-la.
#     python run.py paper-ssl-aasist-df
paper-ssl-aasist-df < paper-ssl-aasist-la
paths.system_folder = 'paper-ssl-aasist-df'
recipe.evaluation_sets = ('asvspoof21-df:eval', 'in-the-wild')
rawboost.algo = 3
