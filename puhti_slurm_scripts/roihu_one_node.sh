#!/bin/bash
# Roihu, one node: a run on all GPUs that the job requests, 4 here.
#
#     sbatch puhti_slurm_scripts/roihu_one_node.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# For fewer GPUs change three options together: with N, --gres=gpu:gh200:N,
# --cpus-per-task=72 * N and --mem=100G * N.
#
# Written by make_scripts.sh from sites/roihu.sh and kinds/one_node.sh.
#SBATCH --job-name=asdf
#SBATCH --account=project_0000000
#SBATCH --partition=gpumedium
#SBATCH --time=1-12:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=288
#SBATCH --mem=400G
#SBATCH --gres=gpu:gh200:4
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=roihu asdf_kind=one_node
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
