# shellcheck shell=bash disable=SC2034
# Roihu of CSC: nodes of four GH200s with 72 cores each. Submit from its GPU login node (aarch64).
site_name=Roihu

# What a job requests. SETTING is for all kinds of jobs; KIND_SETTING, such as gpu_test_time, for one of them.
account=project_0000000
partition=gpumedium
time=1-12:00:00
gpu_test_partition=gputest
gpu_test_time=00:15:00
# gpumedium grants four GPUs per job; gpularge grants full nodes to projects with a scalability test:
#     sbatch --partition=gpularge --gres=gpu:gh200:4 --cpus-per-task=288 --mem=400G ...
two_nodes_gpus=2
gpus_per_node=4
cpus_per_gpu=72
gb_per_gpu=100
gpu_option() { echo "--gres=gpu:gh200:$1"; }

# What the job does on its node.
python_module=python-pytorch
local_disk=${TMPDIR:-}
