#!/bin/bash
# Puhti, runs side by side on one node, one GPU each, as many at once as tasks.
#
#     sbatch puhti_slurm_scripts/puhti_side_by_side.sh CONFIG [CONFIG ...] [-- section.name=value ...]
#
# Each run writes its output to a separate file, which the job's output names.
#
# Written by make_scripts.sh from sites/puhti.sh and kinds/side_by_side.sh.
#SBATCH --job-name=asdf-side
#SBATCH --account=project_0000000
#SBATCH --partition=gpu
#SBATCH --time=3-00:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=10
#SBATCH --mem=360G
#SBATCH --gres=gpu:v100:4,nvme:200
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=puhti asdf_kind=side_by_side
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
