#!/bin/bash
# qsub asdf.sge.sh CONFIG [CONFIG ...] [section.name=value ...]
#$ -cwd -j y -r y -N asdf
#$ -l h_rt=24:00:00,s_rt=23:50:00
#$ -l gpu=2
#$ -pe smp 16

export ASDF_STOP_FILE=$PWD/.asdf-stop-$JOB_ID
rm -f "$ASDF_STOP_FILE"
# The soft limit s_rt sends SIGUSR1 to all of the job: this shell passes it on as a file, and torchrun, which it would
# kill, is started deaf to it.
trap 'signalled=yes; touch "$ASDF_STOP_FILE"' USR1
(trap '' USR1; exec torchrun --standalone --nproc_per_node=2 recipes/wav2vec_aasist/run.py "$@") &
signalled=yes
while [ -n "$signalled" ]; do   # a signal ends wait, but not the run: wait again
    signalled=
    wait $!
    status=$?
done
# 99 puts the job back into the queue.
if [ -e "$ASDF_STOP_FILE" ] && [ "$status" -eq 0 ]; then status=99; fi
rm -f "$ASDF_STOP_FILE"
exit "$status"
