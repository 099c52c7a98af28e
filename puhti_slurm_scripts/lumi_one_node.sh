#!/bin/bash
# LUMI, one node: a run on all GPUs that the job requests, 8 here.
#
#     sbatch puhti_slurm_scripts/lumi_one_node.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# For fewer GPUs change three options together: with N, --gpus-per-node=N,
# --cpus-per-task=7 * N and --mem=60G * N.
#
# Written by make_scripts.sh from sites/lumi.sh and kinds/one_node.sh.
#SBATCH --job-name=asdf
#SBATCH --account=project_000000000
#SBATCH --partition=small-g
#SBATCH --time=3-00:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --mem=480G
#SBATCH --gpus-per-node=8
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=lumi asdf_kind=one_node
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
