#!/bin/bash
# Roihu, two nodes: one run on 2 GPUs of each; --nodes takes more.
#
#     sbatch puhti_slurm_scripts/roihu_two_nodes.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# Written by make_scripts.sh from sites/roihu.sh and kinds/two_nodes.sh.
#SBATCH --job-name=asdf-nodes
#SBATCH --account=project_0000000
#SBATCH --partition=gpumedium
#SBATCH --time=1-12:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=144
#SBATCH --mem=200G
#SBATCH --gres=gpu:gh200:2
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=roihu asdf_kind=two_nodes
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
