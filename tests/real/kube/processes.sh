# Servers in the background of a script that sources this file. The script sets `folder`, for their files and logs,
# and `programs`, the folder of their programs.
# shellcheck shell=bash disable=SC2154

# Starts a program in the background, with its output in FOLDER/NAME.log, and its process id in $!. It gets its own
# session: otherwise Ctrl-C would stop the servers before the command, and the command would report a second failure.
# pdeathsig kills it if this script is killed by SIGKILL, which no trap can handle.
start() {
  local name=$1
  shift
  start_as "$name" "$programs/$name" "$@"
}

# Starts a program of any path: start_as NAME PROGRAM ARGUMENTS…
start_as() {
  local name=$1
  shift
  (cd "$folder" && exec setsid setpriv --pdeathsig KILL "$@") >"$folder/$name.log" 2>&1 </dev/null &
}

# Stops a process of this script, and waits until it has exited.
end() {
  [[ -n $1 ]] || return 0
  kill -TERM "$1" 2>/dev/null || true
  # The servers need a second at most, and their data may be lost.
  local _
  for _ in {1..50}; do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# Prints the reason and the logs, and exits.
give_up() {
  {
    echo "$1"
    local log
    for log in "$folder"/*.log; do
      echo "--- the end of $(basename "$log")"
      tail -n 40 "$log"
    done
  } >&2
  # Whole, for a reader who needs more than the ends.
  [[ -z ${LUDGATE_CLUSTER_LOGS:-} ]] || cp -r "$folder"/*.log "$LUDGATE_CLUSTER_LOGS"/
  exit 1
}

# Waits until a check passes and returns 0; returns 1 if the process exited first. Two minutes allow for a concurrent
# build.
await() {
  local process=$1
  shift
  local until=$((SECONDS + 120))
  while ! "$@" >/dev/null 2>&1; do
    kill -0 "$process" 2>/dev/null || return 1
    ((SECONDS < until)) || give_up "not ready after two minutes: $*"
    sleep 0.1
  done
}
