# A hostile agent in a run that lives on: makes each attack that `$HOME/attack` names, and answers in `$HOME/result`.
set -u
[ "$AGENCY_ROLE" = gate ] && exit 0
top=$(dirname "$HOME")
folder=$(dirname "$(ls -d "$top"/state/*/journal)")
run=$folder/runs/$AGENCY_RUN
sock=$folder/control.sock
agency=$(cat "$HOME/agency")
clean="env -i HOME=$HOME PATH=$PATH AGENCY_STATE_DIR=$top/state AGENCY_CONFIG=$top/agency.yaml GIT_CONFIG_GLOBAL=/dev/null"
daemon() { cat "$HOME/daemon"; }
record='{"version":1,"ended_at":"2026-01-01T00:00:00Z","how":{"exited":0},"code":0,"signal":null,"wall_ms":1,"cpu_ms":1,"peak_rss_kb":1,"survivors":0}'

# Connects, says the command, and waits for the answer or (gone) does not.
cat > "$HOME/say.pl" <<'P'
use IO::Socket::UNIX;
my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "no socket: $!";
$s->autoflush(1);
print $s qq({"id":"forged","protocol":null,"verb":"pause","args":{"reason":"by-the-agent"},"by":"owner"}\n);
exit 0 if $ARGV[1] eq 'gone';
print scalar <$s>;
P
# Answers everything with yes, and goes when `$HOME/enough` is there.
cat > "$HOME/fake.pl" <<'P'
use IO::Socket::UNIX;
unlink $ARGV[0];
my $l = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 5) or die "no socket: $!";
$l->timeout(0.1);
open my $ready, '>', "$ENV{HOME}/listens"; close $ready;
until (-e $ARGV[1]) {
  my $s = $l->accept or next;
  my $line = <$s>;
  open my $f, '>>', "$ARGV[1].heard"; print $f $line; close $f;
  print $s qq({"accepted":true,"text":"as you wish"}\n);
}
P
cat > "$HOME/nest.sh" <<'S'
n=$1; shift
if [ "$n" = 0 ]; then "$@"; else sh "$0" $((n-1)) "$@"; fi
exit $?
S

act() {
  case "$1" in
    verb) "$agency" pause --reason by-the-agent ;;
    verb-clean) $clean "$agency" pause --reason by-the-agent ;;
    verb-session) $clean setsid sh -c '"$0" pause --reason by-the-agent; :' "$agency" ;;
    verb-orphan) $clean sh -c '(setsid sh -c "sleep 0.2; \"$0\" pause --reason by-the-agent; :" "$0" &) ; sleep 2' "$agency" ;;
    verb-deep) $clean sh "$HOME/nest.sh" 300 "$agency" pause --reason by-the-agent ;;
    verb-raw) $clean perl "$HOME/say.pl" "$sock" wait ;;
    verb-raw-deep) $clean sh "$HOME/nest.sh" 300 perl "$HOME/say.pl" "$sock" wait ;;
    verb-gone)
      kill -STOP "$(daemon)"
      $clean perl "$HOME/say.pl" "$sock" gone
      kill -CONT "$(daemon)" ;;
    adopt) $clean "$agency" adopt ;;
    trust) $clean "$agency" trust ;;
    resume) $clean "$agency" resume ;;
    inject) $clean "$agency" loop inject --phase execute --reason by-the-agent ;;
    ack) $clean "$agency" ack 000000000000 ;;
    forget) $clean "$agency" forget "$AGENCY_REPO" --yes ;;
    human) $clean "$agency" work done A-1 --as-human ;;
    socket-removed) rm "$sock" ;;
    socket-folder) rm "$sock"; mkdir "$sock" ;;
    socket-link) ln -sfn /nowhere "$sock" ;;
    socket-fake)
      kill -STOP "$(daemon)"
      $clean perl "$HOME/fake.pl" "$sock" "$HOME/enough" >/dev/null 2>&1 &
      while ! [ -e "$HOME/listens" ]; do sleep 0.02; done ;;
    socket-real) touch "$HOME/enough"; kill -CONT "$(daemon)" ;;
    usage) echo '{"version":1,"usage":{"cost_microusd":0},"outcome":"ok"}' > "$run/usage.json" ;;
    exit) echo "$record" > "$run/exit.tmp"; mv "$run/exit.tmp" "$run/exit.json" ;;
    shim)
      shim=$(sed 's/.*"shim":{"pid":\([0-9]*\).*/\1/' "$run/alive")
      echo "$record" > "$run/exit.tmp"
      mv "$run/exit.tmp" "$run/exit.json"; kill -9 "$shim" ;;
    journal) rm -r "$folder/journal" ;;
    outbox) mv "$folder/outbox" "$folder/outbox.old"; touch "$folder/outbox" ;;
    quarantine) mv "$folder/quarantine" "$folder/quarantine.old"; ln -s "$HOME" "$folder/quarantine" ;;
    lock) rm "$AGENCY_REPO/.git/agency/lock" ;;
    tools) echo '[alias] st = !true' > "$HOME/.gitconfig"; echo 'export A=1' > .envrc; echo '*.o' >> .git/info/exclude ;;
    config) echo 'limits: { parallel: 99 }' >> "$top/agency.yaml" ;;
    *) echo "no attack $1"; return 9 ;;
  esac
}
while :; do
  if [ -e "$HOME/attack" ]; then
    name=$(cat "$HOME/attack"); rm "$HOME/attack"
    text=$(act "$name" 2>&1 </dev/null); code=$?
    printf '%s\n%s' "$code" "$text" > "$HOME/result.tmp"; mv "$HOME/result.tmp" "$HOME/result"
    # What was done to the daemon's own files is looked at when the run has ended.
    case "$name" in tools | journal | outbox | quarantine | lock) exit 0 ;; esac
  fi
  sleep 0.02
done
