#!/bin/bash
# Roihu, two nodes: one run on two GPUs of each.
#
#     sbatch puhti_slurm_scripts/roihu_two_nodes.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# gpumedium grants four GPUs per job. gpularge grants full nodes to projects with a scalability test:
#     sbatch --partition=gpularge --gres=gpu:gh200:4 --cpus-per-task=288 --mem=400G ...
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

python_module=python-pytorch
local_disk=${TMPDIR:-}
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
on_all_nodes "$@"
