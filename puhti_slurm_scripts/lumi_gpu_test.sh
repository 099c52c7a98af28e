#!/bin/bash
# LUMI, one GPU for a quarter of an hour: does it run at all? Starts soon.
#
#     sbatch puhti_slurm_scripts/lumi_gpu_test.sh quickstart
#
# Ten minutes of warning would leave five to run, hence three.
#
# Written by make_scripts.sh from sites/lumi.sh and kinds/gpu_test.sh.
#SBATCH --job-name=asdf-test
#SBATCH --account=project_000000000
#SBATCH --partition=dev-g
#SBATCH --time=00:15:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=7
#SBATCH --mem=60G
#SBATCH --gpus-per-node=1
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@180
#SBATCH --requeue

asdf_site=lumi asdf_kind=gpu_test
# shellcheck source=puhti_slurm_scripts/common.sh
source "${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "$@"
