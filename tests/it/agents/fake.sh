# A bad agent: its first `$HOME/times` runs do what `$HOME/mode` says, the others are honest.
# Each run first looks whether anything of an earlier run in this repository is still there.
set -u
echo "$AGENCY_RUN" >> "$HOME/tries"
for environ in $(grep -alF "AGENCY_REPO=$AGENCY_REPO" /proc/[0-9]*/environ 2> /dev/null); do
  text=$(tr '\0' '\n' 2> /dev/null < "$environ") || continue
  case "$text" in
    "" | *"AGENCY_RUN=$AGENCY_RUN"*) ;;
    *"AGENCY_REPO=$AGENCY_REPO"*) echo "$AGENCY_RUN met $environ" >> "$HOME/intruders" ;;
  esac
done
try=$(wc -l < "$HOME/tries")
if [ "$try" -le "$(cat "$HOME/times")" ]; then
  case "$(cat "$HOME/mode")" in
    hang) exec sleep 1000 ;;
    deaf) trap '' TERM; while :; do sleep 0.2; done ;;
    crash) if [ "$try" = 1 ]; then exit 3; else kill -SEGV $$; fi ;;
    memory) ulimit -v 100000 || exit 0; exec tail /dev/zero ;;
    nothing) exit 0 ;;
    kill-shim) kill -9 $PPID; while :; do sleep 0.1; done ;;
    stop-shim) kill -STOP $PPID; while :; do sleep 0.1; done ;;
    forge)
      for folder in "$HOME"/../state/*/runs/"$AGENCY_RUN"; do echo '{}' > "$folder/exit.json"; done
      while :; do sleep 0.1; done ;;
    # What follows behaves badly, and does its work nevertheless.
    spew) yes | head -c 300000000 ;;
    slow) for line in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo "$line"; sleep 0.2; done ;;
    pipe) sleep 1000 & ;;
    fork)
      (setsid sh -c 'trap "" TERM; echo > "$HOME/forked"; while :; do sleep 0.2; done' &)
      while [ ! -e "$HOME/forked" ]; do sleep 0.02; done ;;
  esac
fi
exec sh "$HOME/honest.sh"
