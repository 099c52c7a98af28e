"""wav2vec 2.0 + AASIST: train a detector of spoofed speech, score it, report.

    python run.py quickstart                               # a demo
    python run.py train-ssl-aasist                         # one process
    torchrun --nproc_per_node=2 run.py train-ssl-aasist    # two GPUs
    python run.py train-ssl-aasist network.max_epochs=2    # change a setting
    python run.py quickstart --explain network.max_epochs  # where it comes from
    python run.py --list                                   # the configs

Stages (recipe.start_stage .. recipe.end_stage)
    0  measure the utterances      all ranks
    1  train                       all ranks
    2  score the chosen epochs     all ranks
    3  report                      main rank, the others wait
"""

import sys
from importlib.util import find_spec

if not find_spec("asdf"):
    sys.exit(f"error: ASDF is missing. In its checkout: {sys.executable} -m pip install -e .")

from asdf.demo import make_demo_corpus, make_partial_demo
from asdf.recipe import Corpus, Run, open_recipe
from asdf.recipe.stages import evaluate_network, report_results, train_network, validate_network

LA = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"

# name -> list, relative to paths.database_folder. The corpora of the field are known without being
# declared: 'asvspoof19', 'asvspoof21-la:eval', 'in-the-wild' ... (python -m asdf corpora). One in
# a folder of your own:
#     "my-itw": Corpus(reader="in-the-wild", folder="downloads/itw"),
CORPORA = {
    "demo-train": Corpus("train_list.txt", protocol=f"{LA}.train.trn.txt", make=make_demo_corpus),
    "demo-dev": Corpus("dev_list.txt", protocol=f"{LA}.dev.trl.txt", make=make_demo_corpus),
    "demo-eval": Corpus("eval_list.txt", protocol=f"{LA}.eval.trl.txt", make=make_demo_corpus),
    # Partially spoofed, with the spoofed parts in seconds (docs/localisation.md).
    "demo-partial-train": Corpus("partial/train_list.tsv", make=make_partial_demo),
    "demo-partial-dev": Corpus("partial/dev_list.tsv", make=make_partial_demo),
    "demo-partial-eval": Corpus("partial/eval_list.tsv", make=make_partial_demo),
    "mini-train": Corpus("train_list.txt", protocol=f"{LA}.train.trn.txt"),
    "mini-dev": Corpus("dev_list.txt", protocol=f"{LA}.dev.trl.txt"),
    # The same next to another corpus, in a folder of its own.
    "mini:train": Corpus("train_list.txt", folder="mini", protocol=f"{LA}.train.trn.txt"),
    "mini:dev": Corpus("dev_list.txt", folder="mini", protocol=f"{LA}.dev.trl.txt"),
}


def measure(run: Run) -> None:
    """measure the utterances"""
    for name in run.sets_in_use():
        run.lengths(run.utterances(name))


def train(run: Run) -> None:
    """train the network"""
    if run.scores_only:  # network.resume_epoch = -N
        return validate_network(run)
    utterances, lengths = run.training_utterances()
    return train_network(run, run.build_network(), utterances, lengths)


def score(run: Run) -> None:
    """score the chosen epochs"""
    for name in run.selected_networks():
        evaluate_network(run, run.load_network(name), name, run.settings.recipe.evaluation_sets)


def report(run: Run) -> None:
    """report the results"""
    report_results(run, run.selected_networks(), run.settings.recipe.evaluation_sets)


def main() -> int:
    with open_recipe(
        __file__, CORPORA, __doc__, "train-ssl-aasist", configs=("../papers", "../demo")
    ) as recipe:
        for run in recipe.runs():
            run.stage(0, measure)
            run.stage(1, train)
            run.stage(2, score)
            run.stage(3, report, main_only=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
