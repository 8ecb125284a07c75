#!/usr/bin/env bash
# Run a recipe on several nodes of a Slurm cluster, by a Flink that lives as long as the job:
#
#   sbatch --nodes=4 flink.sh recipe.yaml
#
# Arguments are those of `beam-volumes run`. Java and the folder of Flink 1.19, FLINK_HOME, must be on all nodes, and
# settings.yaml of templates/flink in the folder of the job. JOB_SERVER is the jar of Beam's job server for Flink 1.19;
# without it, Beam downloads one. BEAM_VOLUMES is the command, by default beam-volumes. SLOTS is the number of slabs in
# flight of a node, by default one for every four cores. Ask for whole nodes: who reaches the ports can run code as you.
#SBATCH --job-name=beam-volumes
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=4:00:00
#SBATCH --requeue --open-mode=append
#SBATCH --signal=B:USR1@120
set -euo pipefail
if [ $# = 0 ] || [ -z "${FLINK_HOME:-}" ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
BEAM_VOLUMES=${BEAM_VOLUMES:-beam-volumes}
SLOTS=${SLOTS:-$((SLURM_CPUS_PER_TASK / 4 > 0 ? SLURM_CPUS_PER_TASK / 4 : 1))}
HEAD=$(hostname)
DIR=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/beam-volumes-$SLURM_JOB_ID
export BEAM_VOLUMES SLOTS HEAD DIR FLINK_HOME

# Three ports that no process listens on, on any node. Systems give clients ports above 32767.
ports_free() {
  for port in "$PORT" $((PORT + 1)) $((PORT + 2)); do
    if (exec 3<>"/dev/tcp/localhost/$port") 2>/dev/null; then return 1; fi
  done
}
# Flink and the pool of workers on one node, until one of them ends.
node() {
  set -euo pipefail
  mkdir -p "$DIR"
  trap 'trap - TERM; kill $(jobs -p) 2>/dev/null; wait; rm -rf "$DIR"' EXIT
  trap 'exit 143' TERM
  local settings=(
    -Djobmanager.rpc.address="$HEAD" -Djobmanager.rpc.port="$PORT"
    -Drest.address="$HEAD" -Drest.port=$((PORT + 1)) -Drest.bind-address=0.0.0.0 -Djobmanager.bind-host=0.0.0.0
    -Dtaskmanager.bind-host=0.0.0.0 -Dtaskmanager.host="$(hostname)" -Dio.tmp.dirs="$DIR"
    -Dprocess.working-dir="$DIR/node-$SLURM_NODEID" -Dblob.server.port=0
  )
  while IFS=': ' read -r key value; do settings+=(-D"$key=$value"); done < <(grep '^[a-z]' settings.yaml)
  settings+=(-Dtaskmanager.numberOfTaskSlots="$SLOTS")
  export FLINK_LOG_DIR=$DIR FLINK_PID_DIR=$DIR
  if [ "$SLURM_NODEID" = 0 ]; then
    "$FLINK_HOME/bin/jobmanager.sh" start-foreground "$HEAD" $((PORT + 1)) "${settings[@]}" &
  fi
  "$FLINK_HOME/bin/taskmanager.sh" start-foreground "${settings[@]}" &
  "$BEAM_VOLUMES" worker-pool --port $((PORT + 2)) &
  wait -n
}
export -f ports_free node
FLINK_ENV_JAVA_OPTS_JM=$(sed -n 's/^env.java.opts.jobmanager: //p' settings.yaml)
export FLINK_ENV_JAVA_OPTS_JM

for _ in {1..20}; do
  export PORT=$((10000 + RANDOM % 20000))
  if srun bash -c ports_free; then break; fi
done
srun --kill-on-bad-exit=1 bash -c node >"flink-$SLURM_JOB_ID.log" 2>&1 &
session=$!
until curl --silent "http://$HEAD:$((PORT + 1))/overview" | grep -q "\"taskmanagers\":$SLURM_NNODES,"; do
  if ! kill -0 "$session" 2>/dev/null; then
    echo "flink.sh: Flink has not started; see flink-$SLURM_JOB_ID.log" >&2
    exit 1
  fi
  sleep 1
done

# Flink, its job server and the pool need 7 GiB. All slabs in flight of a node share the rest.
requeue=
on_limit() {
  requeue=yes
  kill -TERM "$run" 2>/dev/null || true
}
trap on_limit USR1
trap : TERM
"$BEAM_VOLUMES" run "$@" --resume --memory "$((SLURM_MEM_PER_NODE - 7168))MiB" --workers "$SLOTS" \
  --machines "$SLURM_NNODES" --runner FlinkRunner --flink_version=1.19 "--flink_master=$HEAD:$((PORT + 1))" \
  ${JOB_SERVER:+"--flink_job_server_jar=$JOB_SERVER"} "--job_server_jvm_properties=$FLINK_ENV_JAVA_OPTS_JM" \
  "--parallelism=$((SLURM_NNODES * SLOTS))" --environment_type=EXTERNAL \
  "--environment_config=localhost:$((PORT + 2))" &
run=$!
while kill -0 "$run" 2>/dev/null; do wait "$run" || true; done # a signal ends the wait, not the run
code=0
wait "$run" || code=$?
kill "$session" 2>/dev/null || true
wait "$session" || true
srun rm -rf "$DIR" || true # of nodes on which Slurm has killed processes that took long to end
if [ "$code" = 143 ] && [ -n "$requeue" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "${MAX_RESTARTS:-20}" ]; then
  scontrol requeue "$SLURM_JOB_ID" && sleep 60
fi
exit "$code"
