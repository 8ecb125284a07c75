#!/usr/bin/env bash
# A standalone Flink cluster on this machine: a JobManager, two TaskManagers with two slots each, and a pool
# of Python worker processes for the steps of a pipeline.
#
#   cluster.sh up DIR       start it, or restart missing processes, and print the options for Beam
#   cluster.sh down DIR     stop all processes that `up` started
#
# DIR contains logs and process ids (jobmanager.pid, taskmanager-1.pid, ..., pool.pid). Flink uses DIR/work until
# `down`. Settings come from settings.yaml in this folder. FLINK_HOME, JOB_SERVER and PYTHON are paths, by default
# of the installation by `make venv engines`. PYTHON needs apache-beam and this package; without a JOB_SERVER Beam
# downloads its own. REST_PORT, RPC_PORT and POOL_PORT are the ports; SLOTS is the number of slots of a TaskManager.
set -euo pipefail
usage() { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# = 2 ] || usage
here=$(cd "$(dirname "$0")" && pwd -P)
project=$(cd "$here/../.." && pwd -P)
FLINK_HOME=${FLINK_HOME:-$project/.engines/flink}
JOB_SERVER=${JOB_SERVER:-$project/.engines/job-server.jar}
PYTHON=${PYTHON:-$project/.venv/bin/python}
REST_PORT=${REST_PORT:-8081} RPC_PORT=${RPC_PORT:-6123} POOL_PORT=${POOL_PORT:-50000}
dir=$(mkdir -p "$2/flink" && cd "$2" && pwd)

settings=(
  -Djobmanager.rpc.address=localhost
  -Djobmanager.rpc.port="$RPC_PORT"
  -Drest.address=localhost
  -Drest.port="$REST_PORT"
  -Dblob.server.port=0
  # By default all clusters of a machine share it, and a TaskManager reads all jars in it at its start, which
  # can be gigabytes.
  -Dprocess.working-dir="$dir/work"
)
while IFS=': ' read -r key value; do
  settings+=(-D"$key=$value")
done < <(grep '^[a-z]' "$here/settings.yaml")
# Flink's scripts take the options of Java itself from the environment, not from -D.
FLINK_ENV_JAVA_OPTS_JM=$(sed -n 's/^env.java.opts.jobmanager: //p' "$here/settings.yaml")
export FLINK_ENV_JAVA_OPTS_JM
if [ -n "${SLOTS:-}" ]; then settings+=(-Dtaskmanager.numberOfTaskSlots="$SLOTS"); fi

# start NAME COMMAND...: run in the background unless it is running, with log and process id in DIR.
start() {
  local name=$1
  shift
  if [ -e "$dir/$name.pid" ] && kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null; then return; fi
  FLINK_LOG_DIR=$dir/flink FLINK_PID_DIR=$dir/flink nohup "$@" >>"$dir/$name.log" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
}

up() {
  if ! [ -x "$FLINK_HOME/bin/jobmanager.sh" ]; then
    echo "no Flink in $FLINK_HOME: run 'make engines', or let FLINK_HOME name one" >&2
    exit 2
  fi
  # Its first two arguments are the host and the port of the web interface.
  start jobmanager "$FLINK_HOME/bin/jobmanager.sh" start-foreground localhost "$REST_PORT" "${settings[@]}"
  for k in 1 2; do
    start "taskmanager-$k" "$FLINK_HOME/bin/taskmanager.sh" start-foreground "${settings[@]}" \
      -Dtaskmanager.resource-id="taskmanager-$k"
  done
  start pool "$PYTHON" -m beam_volumes.cli.main worker-pool --port "$POOL_PORT"
  local left=300
  until curl --silent "localhost:$REST_PORT/overview" | grep -q '"taskmanagers":2,'; do
    if [ $((left -= 1)) = 0 ] || ! alive; then
      echo "the cluster has not come up; its logs are in $dir" >&2
      down
      exit 1
    fi
    sleep 1
  done
  local jar=
  if [ -e "$JOB_SERVER" ]; then jar=" --flink_job_server_jar=$JOB_SERVER"; fi
  echo "--runner=FlinkRunner --flink_version=1.19$jar" \
    "--job_server_jvm_properties=$FLINK_ENV_JAVA_OPTS_JM" \
    "--flink_master=localhost:$REST_PORT --parallelism=2" \
    "--environment_type=EXTERNAL --environment_config=localhost:$POOL_PORT"
}

alive() {
  for file in "$dir"/*.pid; do
    kill -0 "$(cat "$file")" 2>/dev/null || return 1
  done
}

down() {
  local pids=()
  for file in "$dir"/*.pid; do
    [ -e "$file" ] || continue
    pids+=("$(cat "$file")")
    kill "${pids[-1]}" 2>/dev/null || true
    rm -f "$file"
  done
  # Java takes a moment, and may hang.
  local left=100
  while [ ${#pids[@]} != 0 ] && kill -0 "${pids[@]}" 2>/dev/null; do
    if [ $((left -= 1)) = 0 ]; then
      kill -9 "${pids[@]}" 2>/dev/null || true
      break
    fi
    sleep 0.1
  done
  rm -rf "$dir/work" 2>/dev/null || true
}

case $1 in
  up) up ;;
  down) down ;;
  *) usage ;;
esac
