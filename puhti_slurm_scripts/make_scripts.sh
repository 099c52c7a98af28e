#!/bin/bash
# Write the job scripts of sites: SITE_KIND.sh for every kind of job, from sites/SITE.sh and kinds/KIND.sh.
#
#     cp puhti_slurm_scripts/sites/puhti.sh puhti_slurm_scripts/sites/mine.sh      then change what is in it
#     bash puhti_slurm_scripts/make_scripts.sh mine
#     sbatch puhti_slurm_scripts/mine_gpu_test.sh quickstart
#
# Slurm reads #SBATCH lines before any shell does: they cannot follow from a variable, and are written out here.
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The site's value of a setting for this kind of job, else for all kinds.
setting() {
    local of_kind=${kind}_$1
    echo "${!of_kind:-${!1}}"
}

write_script() (
    site=$1 kind=$2 script=puhti_slurm_scripts/$1_$2.sh
    nodes=1 tasks=1 kind_gpus=1 output=%x-%j.out warning_s=600
    # shellcheck source=puhti_slurm_scripts/sites/puhti.sh
    source "$folder/sites/$site.sh"
    # shellcheck source=puhti_slurm_scripts/kinds/one_node.sh
    source "$folder/kinds/$kind.sh"
    gpus=$kind_gpus
    if [ "$kind_gpus" = all ]; then
        of_kind=${kind}_gpus
        gpus=${!of_kind:-$gpus_per_node}
    fi
    if [ "$tasks" = per_gpu ]; then tasks=$gpus; fi
    echo "#!/bin/bash"
    describe | sed -e 's/^/# /' -e 's/ *$//'
    cat <<EOF
#
# Written by make_scripts.sh from sites/$site.sh and kinds/$kind.sh.
#SBATCH --job-name=$job_name
#SBATCH --account=$(setting account)
#SBATCH --partition=$(setting partition)
#SBATCH --time=$(setting time)
#SBATCH --nodes=$nodes
#SBATCH --ntasks-per-node=$tasks
#SBATCH --cpus-per-task=$((gpus * cpus_per_gpu / tasks))
#SBATCH --mem=$((gpus * gb_per_gpu))G
#SBATCH $(gpu_option "$gpus")
#SBATCH --output=$output
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@$warning_s
#SBATCH --requeue

asdf_site=$site asdf_kind=$kind
# shellcheck source=puhti_slurm_scripts/common.sh
source "\${SLURM_SUBMIT_DIR:?submit with sbatch}/puhti_slurm_scripts/common.sh" || exit
run "\$@"
EOF
)

[ $# -gt 0 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for site; do
    [ -f "$folder/sites/$site.sh" ] || { echo "there is no $folder/sites/$site.sh" >&2; exit 2; }
    for kind in "$folder"/kinds/*.sh; do
        kind=$(basename "$kind" .sh)
        # Whole or not at all: a job may be submitted meanwhile.
        write_script "$site" "$kind" >"$folder/.$site.$kind.part"
        chmod 755 "$folder/.$site.$kind.part"
        mv "$folder/.$site.$kind.part" "$folder/${site}_$kind.sh"
    done
done
