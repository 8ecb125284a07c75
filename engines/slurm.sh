#!/usr/bin/env bash
# A Slurm cluster on this machine for the tests: a controller and two nodes, node1 and node2, of two cores each.
#
#   slurm.sh up DIR       start it, and print the file to set SLURM_CONF to
#   slurm.sh down DIR     end its jobs and all processes that `up` started
#
# DIR contains settings, logs and process ids. Paths of sockets are short, so DIR must be as well. CONTROL_PORT,
# NODE1_PORT and NODE2_PORT are the ports. Needs root, and the programs of the packages slurm-wlm and munge.
set -euo pipefail
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# = 2 ] || usage
dir=$(mkdir -p "$2" && cd "$2" && pwd)
export SLURM_CONF=$dir/slurm.conf PATH=$PATH:/usr/sbin

# Control groups are not enforced, as on some clusters: a job learns its memory from the environment. Nothing
# waits for long: a job that is terminated is killed after five seconds, and a requeued one waits as long.
settings() {
  cat <<END
ClusterName=tests
SlurmctldHost=$(hostname -s)(localhost)
SlurmctldPort=$CONTROL_PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.own
SlurmdPidFile=$dir/slurmd.%n.own
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=600
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=node1 NodeHostname=$(hostname -s) NodeAddr=localhost Port=$NODE1_PORT CPUs=2 RealMemory=4000
NodeName=node2 NodeHostname=$(hostname -s) NodeAddr=localhost Port=$NODE2_PORT CPUs=2 RealMemory=4000
PartitionName=usual Nodes=node[1-2] Default=YES MaxTime=60 PriorityTier=1 GraceTime=0
PartitionName=urgent Nodes=node[1-2] MaxTime=60 PriorityTier=2 PreemptMode=OFF
END
}

# start NAME COMMAND...: run in the background, with log and process id in DIR.
start() {
  local name=$1
  shift
  nohup "$@" >>"$dir/$name.log" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
}

up() {
  mkdir -p "$dir/state" "$dir/spool.node1" "$dir/spool.node2"
  head -c 128 /dev/urandom >"$dir/munge.key"
  chmod 600 "$dir/munge.key"
  settings >"$dir/slurm.conf"
  start munged munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
    --pid-file="$dir/munged.own" --seed-file="$dir/munge.seed"
  local left=100
  until [ -S "$dir/munge.socket" ]; do
    [ $((left -= 1)) != 0 ] || fail
    sleep 0.1
  done
  start slurmctld slurmctld -D -i
  start node1 slurmd -D -N node1
  start node2 slurmd -D -N node2
  left=300
  until [ "$(sinfo --noheader --partition=usual --states=idle --format=%D 2>/dev/null)" = 2 ]; do
    [ $((left -= 1)) != 0 ] || fail
    sleep 0.1
  done
  echo "$dir/slurm.conf"
}

fail() {
  for log in "$dir"/*.log; do tail -n 5 "$log" >&2; done
  down
  exit 1
}

down() {
  timeout 10 scancel --quiet --user="$(id -un)" 2>/dev/null || true
  local left=50 pids=()
  while [ $((left -= 1)) != 0 ] && [ -n "$(timeout 2 squeue --noheader 2>/dev/null)" ]; do sleep 0.2; done
  for file in "$dir"/*.pid; do
    [ -e "$file" ] || continue
    pids+=("$(cat "$file")")
    kill "${pids[-1]}" 2>/dev/null || true
    rm -f "$file"
  done
  left=100
  while [ ${#pids[@]} != 0 ] && kill -0 "${pids[@]}" 2>/dev/null; do
    if [ $((left -= 1)) = 0 ]; then
      kill -9 "${pids[@]}" 2>/dev/null || true
      break
    fi
    sleep 0.1
  done
}

case $1 in
  up) up ;;
  down) down ;;
  *) usage ;;
esac
