#!/bin/bash
# Roihu, an array: one job for each config, with one GPU each; %2 lets two run at once.
#
#     sbatch --array=0-2%2 puhti_slurm_scripts/roihu_array.sh net larger_net train-aasist [-- section.name=value ...]
#     python -m asdf launch RUN.PY net --seeds 0-4 --max-running 2 --slurm puhti_slurm_scripts/roihu_array.sh
#
# For N configs: --array=0-(N-1). What follows `--` applies to all of them.
#
# Written by make_scripts.sh from sites/roihu.sh and kinds/array.sh.
#SBATCH --job-name=asdf-array
#SBATCH --account=project_0000000
#SBATCH --partition=gpumedium
#SBATCH --time=1-12:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=72
#SBATCH --mem=100G
#SBATCH --gres=gpu:gh200:1
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=roihu asdf_kind=array
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
