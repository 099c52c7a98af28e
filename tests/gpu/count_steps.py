"""Prints what `count_training` prints, without a save: `python -m tests.gpu.count_steps CASES`."""

from tests.gpu.count_training import count_without_saving
from tests.gpu.on_processes import print_results

if __name__ == "__main__":
    print_results(count_without_saving)
