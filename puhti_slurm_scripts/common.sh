# shellcheck shell=bash
# What the job scripts in this folder share: each sources this file, which sources its site and its kind of job, and then
# calls `run`.
#
# Submit from the project's folder; what follows the script's name reaches run.py word for word:
#
#     sbatch --account=project_2001234 puhti_slurm_scripts/puhti_one_node.sh CONFIG [CONFIG ...] [section.name=value ...]
#
# A signal some minutes before the time limit becomes a stop file, which run.py looks for at every optimiser step,
# whoever launched it: it saves and ends with status 0. The job then puts itself back into the queue and resumes.
#
# Environment variables that the sbatch command may set:
#     ASDF_ARCHIVES             tar files of corpora, as in PATH with colons between; each node unpacks them to its local
#                               disk, and paths.database_folder becomes that folder
#     ASDF_VENV                 a virtual environment to activate after the module
#     ASDF_CONTAINER            the container with PyTorch, where a site has it in one
#     ASDF_RECIPE               the run.py to run (recipes/wav2vec_aasist/run.py)
#     ASDF_PROCESSES_PER_NODE   processes on each node (one for each of the job's GPUs there; one without GPUs)
#     ASDF_MAX_RESTARTS         how often the job may go back into the queue (20)
#
# A site sets python_module, or defines load_site, which loads PyTorch and may set python; and local_disk, the folder of
# the node's local disk. A script without a site sets python_module and local_disk before it sources this file.

say() { printf '%s %s: %s\n' "$(date +%T)" "${SLURM_JOB_NAME:-job}" "$*" >&2; }
die() { say "$*"; exit 2; }

[ -n "${SLURM_JOB_ID:-}" ] || die "this is a job script: submit it with sbatch"
python=(python3)        # with what a site has to say before it
if [ -n "${asdf_site:-}" ]; then
    # shellcheck source=puhti_slurm_scripts/sites/puhti.sh
    source "$SLURM_SUBMIT_DIR/puhti_slurm_scripts/sites/$asdf_site.sh" || exit
    # shellcheck source=puhti_slurm_scripts/kinds/one_node.sh
    source "$SLURM_SUBMIT_DIR/puhti_slurm_scripts/kinds/${asdf_kind:?}.sh" || exit
fi
arguments=("$@")
recipe=${ASDF_RECIPE:-recipes/wav2vec_aasist/run.py}
# In an array, the bare id of its last task means the whole array.
job=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

# On the shared file system, under a name that stays the same when the job is requeued; a file that a killed start left
# there is not for this start.
export ASDF_STOP_FILE=$PWD/.asdf-stop-$SLURM_JOB_ID
rm -f "$ASDF_STOP_FILE"
trap 'rm -f "$ASDF_STOP_FILE"' EXIT
signalled=
trap 'signalled=yes; : >"$ASDF_STOP_FILE"; say "asked to stop: the run saves and ends"' USR2

# `sbatch --export=...` would reach srun too, and hide from it what is set here.
export SLURM_EXPORT_ENV=ALL
# From Slurm 22.05 on srun takes the number of CPUs from here only; without it all processes share one.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
export PYTHONUNBUFFERED=1

# ------------------------------------------------------------------------------------------------------ preparation

database=()     # the override that points run.py to the unpacked corpora; empty without archives

is_loaded=
load_python() {
    [ -z "$is_loaded" ] || return 0
    if [ "$(type -t load_site)" = function ]; then
        load_site
    else
        module load "${python_module:?}" || die "cannot load the module $python_module"
        if [ -n "${ASDF_VENV:-}" ]; then
            # shellcheck disable=SC1091
            source "$ASDF_VENV/bin/activate" || die "ASDF_VENV=$ASDF_VENV is no virtual environment"
        fi
    fi
    is_loaded=yes
}

prepare() {
    load_python
    [ -f "$recipe" ] || die "there is no $recipe in $PWD: submit from the project's folder, or set ASDF_RECIPE"
    unpack_archives
}

unpack_archives() {
    local archive archives folder=$local_disk/asdf-$SLURM_JOB_ID
    [ -n "${ASDF_ARCHIVES:-}" ] || return 0
    [ -n "$local_disk" ] || die "no local disk to unpack to${local_disk_advice:+: $local_disk_advice}"
    IFS=: read -r -a archives <<<"$ASDF_ARCHIVES"
    for archive in "${archives[@]}"; do
        [ -f "$archive" ] || die "ASDF_ARCHIVES: there is no $archive"
    done
    say "unpacking ${#archives[@]} archive(s) to $folder on every node"
    # shellcheck disable=SC2016
    srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
        bash -c 'mkdir -p "$0" && for archive; do tar -xf "$archive" -C "$0" || exit; done' \
        "$folder" "${archives[@]}" || die "unpacking failed: is the archive whole, and the disk large enough?"
    database=("paths.database_folder='$folder'")
}

# configs=(...) overrides=(...) from `CONFIG [CONFIG ...] [-- section.name=value ...]`
split_arguments() {
    configs=() overrides=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        [[ $1 != *=* ]] || die "'$1' is no config: write -- between the configs and what holds for all of them"
        configs+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    overrides=("$@")
    [ ${#configs[@]} -gt 0 ] || die "no config named"
}

# --------------------------------------------------------------------------------------- waiting, and starting again

steps=()        # process ids of the job steps

# No pipe behind srun: its exit status would be lost.
in_background() { "$@" & steps+=("$!"); }

wait_for_steps() {
    local pid one status=0 clean=0
    for pid in "${steps[@]}"; do
        signalled=yes
        while [ -n "$signalled" ]; do       # a signal ends `wait`, but not the step: wait again
            signalled=
            wait "$pid"
            one=$?
        done
        if [ "$one" -eq 0 ]; then clean=$((clean + 1)); else status=$one; fi
    done
    if [ -e "$ASDF_STOP_FILE" ] && [ "$clean" -gt 0 ]; then
        rm -f "$ASDF_STOP_FILE"
        start_again
    fi
    exit "$status"
}

start_again() {
    local before=$((${SLURM_RESTART_COUNT:-0} + ${ASDF_RESTARTS:-0})) most=${ASDF_MAX_RESTARTS:-20}
    if [ "$before" -ge "$most" ]; then
        say "stopped and saved, but not started again: ASDF_MAX_RESTARTS=$most is reached. Submit the same command again."
        exit 1
    fi
    # Said first: Slurm ends this script as it requeues the job.
    say "back into the queue, restart $((before + 1)) of at most $most"
    ! scontrol requeue "$job" || exit 0
    say "requeueing is not allowed here; submitting anew, restart $((before + 1)) of at most $most"
    resubmit $((before + 1)) || die "could not submit anew. Submit the same command again: it goes on from the checkpoint."
    exit 0
}

# The job as it is now, also where the command line of sbatch changed what stands in the script's header.
resubmit() {
    local limit gres comment options
    IFS='|' read -r limit gres comment < <(squeue --noheader --jobs="$job" --format='%l|%b|%k')
    gres=${gres//gres[:\/]/}
    options=(--partition="$SLURM_JOB_PARTITION" --job-name="$SLURM_JOB_NAME" --time="$limit"
        --nodes="$SLURM_JOB_NUM_NODES" --cpus-per-task="$SRUN_CPUS_PER_TASK")
    [ -z "${SLURM_JOB_ACCOUNT:-}" ] || options+=(--account="$SLURM_JOB_ACCOUNT")
    [ -z "${SLURM_MEM_PER_NODE:-}" ] || options+=(--mem="$SLURM_MEM_PER_NODE")
    [ -z "${SLURM_NTASKS_PER_NODE:-}" ] || options+=(--ntasks-per-node="$SLURM_NTASKS_PER_NODE")
    [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || options+=(--array="$SLURM_ARRAY_TASK_ID")
    # By its comment `python -m asdf launch` knows which runs are in the queue.
    [ -z "$comment" ] || [ "$comment" = "(null)" ] || options+=(--comment="$comment")
    if [ "$gres" = N/A ]; then options+=(--gres=none); else options+=(--gres="$gres"); fi
    env -u SLURM_RESTART_COUNT ASDF_RESTARTS="$1" sbatch --export=ALL "${options[@]}" "$0" "${arguments[@]}"
}

# ----------------------------------------------------------------------------------------- what the job scripts call

# One run after another on one node, each on all of its GPUs: CONFIG [CONFIG ...] [section.name=value ...]
on_one_node() {
    prepare
    in_background srun --nodes=1 --ntasks=1 --ntasks-per-node=1 \
        "${python[@]}" -m torch.distributed.run --standalone \
        --nproc-per-node="${ASDF_PROCESSES_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}" "$recipe" "${database[@]}" "$@"
    wait_for_steps
}

# The same on all nodes of the job together.
on_all_nodes() {
    local hosts
    prepare
    mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    # The port follows from the job, so that two jobs which share a node do not meet; below the ephemeral ports.
    in_background srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
        --kill-on-bad-exit=1 \
        "${python[@]}" -m torch.distributed.run --nnodes="$SLURM_JOB_NUM_NODES" \
        --nproc-per-node="${ASDF_PROCESSES_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}" \
        --rdzv-backend=c10d --rdzv-endpoint="${hosts[0]}:$((10000 + SLURM_JOB_ID % 20000))" \
        --rdzv-id="$SLURM_JOB_ID" "$recipe" "${database[@]}" "$@"
    wait_for_steps
}

# This array task's config, on one node: CONFIG [CONFIG ...] [-- section.name=value ...]; or, of a file that
# `python -m asdf launch --slurm` has written, this task's run: --points FILE
array_task() {
    local configs overrides
    if [ "${1:-}" = --points ]; then point_task "$2"; fi
    split_arguments "$@"
    local last=$((${#configs[@]} - 1))
    [ -n "${SLURM_ARRAY_TASK_ID:-}" ] || die "submit with sbatch --array=0-$last for these $((last + 1)) configs"
    [ "$SLURM_ARRAY_TASK_ID" -le "$last" ] || die "no config for array task $SLURM_ARRAY_TASK_ID: use --array=0-$last"
    on_one_node "${configs[SLURM_ARRAY_TASK_ID]}" "${overrides[@]}"
}

# Prints the words behind `python3` of line N of a file of runs, each ended by a zero byte.
words_of_line='
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    run = json.loads(file.read().splitlines()[int(sys.argv[2])])
for word in (run["recipe"], run["config"], *run["overrides"]):
    sys.stdout.buffer.write(word.encode("utf-8", "surrogateescape") + b"\0")
'

point_task() {
    local file=$1 words
    [ -n "${SLURM_ARRAY_TASK_ID:-}" ] || die "submit $file as an array: python -m asdf launch does"
    load_python
    mapfile -d '' -t words < <("${python[@]}" -c "$words_of_line" "$file" "$SLURM_ARRAY_TASK_ID")
    [ ${#words[@]} -gt 1 ] || die "no run for array task $SLURM_ARRAY_TASK_ID in $file"
    recipe=${words[0]}
    say "run $SLURM_ARRAY_TASK_ID of $file: ${words[*]:1}"
    on_one_node "${words[@]:1}"
}

# Every config at the same time on one node, each with the share of one task; those beyond the tasks wait for a free
# share: CONFIG [CONFIG ...] [-- section.name=value ...]
side_by_side() {
    local configs overrides share=() number log
    split_arguments "$@"
    prepare
    [ -z "${SLURM_GPUS_ON_NODE:-}" ] || share+=(--gres=gpu:1)
    [ -z "${SLURM_MEM_PER_NODE:-}" ] || share+=(--mem="$((SLURM_MEM_PER_NODE / SLURM_NTASKS_PER_NODE))M")
    for number in "${!configs[@]}"; do
        log=$SLURM_JOB_NAME-$job-run$number.out
        say "run $number: config ${configs[number]}, output in $log"
        # A step sees its own GPU only, as number 0, whatever the config says of gpu_ids.
        # shellcheck disable=SC2016
        in_background srun --exact --nodes=1 --ntasks=1 --ntasks-per-node=1 "${share[@]}" \
            --output="$log" --open-mode=append \
            bash -c '[ -e "$ASDF_STOP_FILE" ] || exec "$@"' - \
            "${python[@]}" "$recipe" computing.gpu_ids=None "${database[@]}" "${configs[number]}" "${overrides[@]}"
    done
    wait_for_steps
}
