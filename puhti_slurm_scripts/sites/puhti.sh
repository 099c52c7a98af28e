# shellcheck shell=bash disable=SC2034
# Puhti of CSC: nodes of four V100s with 10 cores and 90 GB each.
site_name=Puhti

# What a job requests. SETTING is for all kinds of jobs; KIND_SETTING, such as gpu_test_time, for one of them.
account=project_0000000
partition=gpu
time=3-00:00:00
gpu_test_partition=gputest
gpu_test_time=00:15:00
gpus_per_node=4
cpus_per_gpu=10
gb_per_gpu=90
gpu_option() { echo "--gres=gpu:v100:$1,nvme:200"; }
local_disk_advice="ask for one: --gres=gpu:v100:N,nvme:GB"

# What the job does on its node.
python_module=pytorch
local_disk=${LOCAL_SCRATCH:-}
