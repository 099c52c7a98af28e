#!/bin/bash
# Roihu, one GPU for a quarter of an hour: does it run at all? Starts soon.
#
#     sbatch puhti_slurm_scripts/roihu_gpu_test.sh quickstart
#
# Ten minutes of warning would leave five to run, hence three.
#
# Written by make_scripts.sh from sites/roihu.sh and kinds/gpu_test.sh.
#SBATCH --job-name=asdf-test
#SBATCH --account=project_0000000
#SBATCH --partition=gputest
#SBATCH --time=00:15:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=72
#SBATCH --mem=100G
#SBATCH --gres=gpu:gh200:1
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@180
#SBATCH --requeue

asdf_site=roihu asdf_kind=gpu_test
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
