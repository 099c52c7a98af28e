# shellcheck shell=bash disable=SC2034,SC2154
describe() { cat <<EOF
$site_name, runs side by side on one node, one GPU each, as many at once as tasks.

    sbatch $script CONFIG [CONFIG ...] [-- section.name=value ...]

Each run writes its output to a separate file, which the job's output names.
EOF
}
job_name=asdf-side
kind_gpus=all
tasks=per_gpu
run() { side_by_side "$@"; }
