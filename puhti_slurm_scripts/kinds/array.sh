# shellcheck shell=bash disable=SC2034,SC2154
describe() { cat <<EOF
$site_name, an array: one job for each config, with one GPU each; %2 lets two run at once.

    sbatch --array=0-2%2 $script net larger_net train-aasist [-- section.name=value ...]
    python -m asdf launch RUN.PY net --seeds 0-4 --max-running 2 --slurm $script

For N configs: --array=0-(N-1). What follows \`--\` applies to all of them.
EOF
}
job_name=asdf-array
output=%x-%A_%a.out
run() { array_task "$@"; }
