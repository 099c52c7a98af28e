#!/bin/bash
# LUMI, runs side by side on one node, one GPU each, as many at once as tasks.
#
#     sbatch puhti_slurm_scripts/lumi_side_by_side.sh CONFIG [CONFIG ...] [-- section.name=value ...]
#
# Each run writes its output to a separate file, which the job's output names.
#
# Written by make_scripts.sh from sites/lumi.sh and kinds/side_by_side.sh.
#SBATCH --job-name=asdf-side
#SBATCH --account=project_000000000
#SBATCH --partition=small-g
#SBATCH --time=3-00:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --mem=480G
#SBATCH --gpus-per-node=8
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@600
#SBATCH --requeue

asdf_site=lumi asdf_kind=side_by_side
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
