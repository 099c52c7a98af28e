#!/bin/bash
# Puhti, two nodes: one run on 4 GPUs of each; --nodes takes more.
#
#     sbatch puhti_slurm_scripts/puhti_two_nodes.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# Written by make_scripts.sh from sites/puhti.sh and kinds/two_nodes.sh.
#SBATCH --job-name=asdf-nodes
#SBATCH --account=project_0000000
#SBATCH --partition=gpu
#SBATCH --time=3-00:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=40
#SBATCH --mem=360G
#SBATCH --gres=gpu:v100:4,nvme:200
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=puhti asdf_kind=two_nodes
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
