# shellcheck shell=bash disable=SC2034,SC2154
describe() { cat <<EOF
$site_name, one node: a run on all GPUs that the job requests, $gpus here.

    sbatch $script CONFIG [CONFIG ...] [section.name=value ...]

For fewer GPUs change three options together: with N, $(gpu_option N),
--cpus-per-task=$cpus_per_gpu * N and --mem=${gb_per_gpu}G * N.
EOF
}
job_name=asdf
kind_gpus=all
run() { on_one_node "$@"; }
