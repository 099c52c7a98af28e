# shellcheck shell=bash disable=SC2034
# LUMI: nodes of four MI250X, which are eight GPUs to a program, with 7 cores and 60 GB each. AMD: ROCm, not CUDA.
site_name=LUMI

# What a job requests. SETTING is for all kinds of jobs; KIND_SETTING, such as gpu_test_time, for one of them.
account=project_000000000
partition=small-g
time=3-00:00:00
gpu_test_partition=dev-g
gpu_test_time=00:15:00
# Full nodes only, for two days.
two_nodes_partition=standard-g
two_nodes_time=2-00:00:00
gpus_per_node=8
cpus_per_gpu=7
gb_per_gpu=60
gpu_option() { echo "--gpus-per-node=$1"; }

# What the job does on its node: PyTorch for ROCm comes in a container of the LUMI AI Factory. A virtual environment on
# top of it (ASDF_VENV) is made with the container's Python.
load_site() {
    local container=${ASDF_CONTAINER:-/appl/local/laifs/containers/lumi-multitorch-latest.sif}
    module use /appl/local/laifs/modules
    module load lumi-aif-singularity-bindings || die "cannot load the module lumi-aif-singularity-bindings"
    [ -f "$container" ] || die "there is no container $container: name one in ASDF_CONTAINER"
    python=(singularity run "$container" "${ASDF_VENV:+$ASDF_VENV/bin/}python3")
    # The nodes' fast network; and a cache that no two jobs share, in the node's memory.
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3 GLOO_SOCKET_IFNAME=hsn0
    export MIOPEN_USER_DB_PATH=/tmp/miopen-$SLURM_JOB_ID MIOPEN_CUSTOM_CACHE_DIR=/tmp/miopen-$SLURM_JOB_ID
}
# The nodes have none, and /tmp is the job's own memory.
local_disk=
local_disk_advice="LUMI's nodes have none; corpora in uncompressed tars are read without unpacking"
