#!/usr/bin/env bash
# Run a recipe on one node of a Slurm cluster, with all cores and the memory of the job:
#
#   sbatch run.sh recipe.yaml
#   sbatch --array=1-20 run.sh recipe.yaml --each 'data/*.tif' --out results
#
# Arguments are those of `beam-volumes run`. A job that reaches its time limit finishes its slabs, is requeued and
# continues. Options of sbatch, such as --mem=128G, override the lines below. BEAM_VOLUMES is the command, by default
# beam-volumes. MAX_RESTARTS, by default 20, ends a job whose slabs take longer than its time limit, which must be more
# than the 600 seconds in the line with --signal.
#SBATCH --job-name=beam-volumes
#SBATCH --nodes=1 --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=4:00:00
#SBATCH --requeue --open-mode=append
#SBATCH --signal=B:USR1@600
set -euo pipefail
if [ $# = 0 ]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
part=()
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
  if [ "$SLURM_ARRAY_TASK_MIN" != 1 ] || [ "$SLURM_ARRAY_TASK_COUNT" != "$SLURM_ARRAY_TASK_MAX" ]; then
    echo "run.sh: give sbatch all tasks of the array, --array=1-N; with finished volumes they end at once" >&2
    exit 2
  fi
  part=(--part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_MAX")
fi
# Some clusters count the files that a process maps, and the shell is in the job, too.
mib=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * SLURM_CPUS_ON_NODE))}
memory=()
if [ "$mib" -gt 1024 ]; then memory=(--memory "$((mib - 512))MiB"); fi

# Before the time limit, Slurm sends USR1 to this shell only. When it terminates a job, each process gets SIGTERM.
requeue=
on_limit() {
  requeue=yes
  kill -TERM "$run" 2>/dev/null || true
}
trap on_limit USR1
trap : TERM
"${BEAM_VOLUMES:-beam-volumes}" run "$@" "${part[@]}" --runner none --resume "${memory[@]}" &
run=$!
while kill -0 "$run" 2>/dev/null; do wait "$run" || true; done # a signal ends the wait, not the run
code=0
wait "$run" || code=$?
if [ "$code" = 143 ] && [ -n "$requeue" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "${MAX_RESTARTS:-20}" ]; then
  scontrol requeue "$SLURM_JOB_ID" && sleep 60
fi
exit "$code"
