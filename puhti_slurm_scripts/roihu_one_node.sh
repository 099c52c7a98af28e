#!/bin/bash
# Roihu, one node: a run on all GPUs that the job requests (--gres), four here.
#
#     sbatch puhti_slurm_scripts/roihu_one_node.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# For fewer GPUs change three options together: with N, --gres=gpu:gh200:N,
# --cpus-per-task=72 * N and --mem=100G * N.
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

python_module=python-pytorch
local_disk=${TMPDIR:-}
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
on_one_node "$@"
