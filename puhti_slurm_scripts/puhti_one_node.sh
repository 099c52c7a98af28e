#!/bin/bash
# Puhti, one node: a run on all GPUs that the job requests, 4 here.
#
#     sbatch puhti_slurm_scripts/puhti_one_node.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# For fewer GPUs change three options together: with N, --gres=gpu:v100:N,nvme:200,
# --cpus-per-task=10 * N and --mem=90G * N.
#
# Written by make_scripts.sh from sites/puhti.sh and kinds/one_node.sh.
#SBATCH --job-name=asdf
#SBATCH --account=project_0000000
#SBATCH --partition=gpu
#SBATCH --time=3-00:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=40
#SBATCH --mem=360G
#SBATCH --gres=gpu:v100:4,nvme:200
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=puhti asdf_kind=one_node
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
