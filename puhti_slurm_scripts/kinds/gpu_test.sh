# shellcheck shell=bash disable=SC2034,SC2154
describe() { cat <<EOF
$site_name, one GPU for a quarter of an hour: does it run at all? Starts soon.

    sbatch $script quickstart

Ten minutes of warning would leave five to run, hence three.
EOF
}
job_name=asdf-test
warning_s=180
run() { on_one_node "$@"; }
