#!/bin/bash
# LUMI, two nodes: one run on 8 GPUs of each; --nodes takes more.
#
#     sbatch puhti_slurm_scripts/lumi_two_nodes.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# Written by make_scripts.sh from sites/lumi.sh and kinds/two_nodes.sh.
#SBATCH --job-name=asdf-nodes
#SBATCH --account=project_000000000
#SBATCH --partition=standard-g
#SBATCH --time=2-00:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --mem=480G
#SBATCH --gpus-per-node=8
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=lumi asdf_kind=two_nodes
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
