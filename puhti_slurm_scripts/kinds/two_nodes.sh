# shellcheck shell=bash disable=SC2034,SC2154
describe() { cat <<EOF
$site_name, two nodes: one run on $gpus GPUs of each; --nodes takes more.

    sbatch $script CONFIG [CONFIG ...] [section.name=value ...]
EOF
}
job_name=asdf-nodes
nodes=2
kind_gpus=all
run() { on_all_nodes "$@"; }
