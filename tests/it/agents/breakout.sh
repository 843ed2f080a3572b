# A hostile agent: tries what a run must not do, one thing after the other, and tells on stdout what it could do. `$1` names the
# stage, `$2` the daemon's process.
stage=$1 daemon=$2 shim=$PPID
state=$stage/state
try() {
  name=$1
  shift
  if "$@" > /dev/null 2>&1; then echo "open $name"; else echo "shut $name"; fi
}
overwrite() { echo hostile > "$1"; }
append() { echo hostile >> "$1"; }
cut() { true > "$1"; }
swap() { rm -rf "$1" && ln -s /etc "$1"; }
background() { setsid sh -c "echo hostile > '$1'"; }
peek() { cat "$1"; }

try write-outside overwrite "$stage/other/file"
try append-outside append "$stage/other/file"
try truncate-outside cut "$stage/other/file"
try create-outside overwrite "$stage/other/new"
try mkdir-outside mkdir "$stage/other/dir"
try remove-outside rm -f "$stage/other/gone"
try rename-out sh -c "echo x > mine && mv mine '$stage/other/mine' && test -e '$stage/other/mine'"
try rename-in mv "$stage/other/gone" taken
try link-in ln "$stage/other/file" linked
try through-link sh -c "ln -s '$stage/other/file' way; echo hostile > way"
try through-proc overwrite "/proc/self/root$stage/other/file"
try session background "$stage/other/file"
try other-repository git -C "$stage/other-repo" -c user.name=x -c user.email=x@x commit --quiet --allow-empty -m hostile
try other-hooks overwrite "$stage/other-repo/.git/hooks/pre-commit"
try configuration append "$stage/agency.yaml"
try read-configuration peek "$stage/agency.yaml"
try gitconfig append "$HOME/.gitconfig"
try bashrc append "$HOME/.bashrc"
try ssh-write overwrite "$HOME/.ssh/authorized_keys"
try ssh-read peek "$HOME/.ssh/id_ed25519"
try ssh-link sh -c "ln -s '$HOME/.ssh/id_ed25519' key; cat key"
try netrc-read peek "$HOME/.netrc"
try aws-read peek "$HOME/.aws/credentials"
try gh-read peek "$HOME/.config/gh/hosts.yml"
try cargo-program overwrite "$HOME/.cargo/bin/cargo"
try state-write sh -c "for f in '$state'/*/pins.json; do echo hostile > \"\$f\"; done"
try state-journal sh -c "for f in '$state'/*/journal/*; do : > \"\$f\" || exit 1; done"
try state-read sh -c "cat '$state'/*/pins.json"
try state-create overwrite "$state/new"
try state-move mv "$state" "$state.old"
try forged-exit sh -c "for f in '$state'/*/runs/*/; do echo '{}' > \"\$f/exit.json\" || exit 1; done"
try forged-usage sh -c "for f in '$state'/*/runs/*/; do echo '{}' > \"\$f/usage.json\" || exit 1; done"
try socket-remove sh -c "rm '$state'/*/control.sock"
try socket-replace sh -c "for f in '$state'/*/control.sock; do mv \"\$f\" \"\$f.old\"; done"
try stop-daemon kill -STOP "$daemon"
try kill-daemon kill -KILL "$daemon"
try stop-shim kill -STOP "$shim"
try kill-shim kill -KILL "$shim"
try look-into-daemon peek "/proc/$daemon/environ"
try look-into-shim peek "/proc/$shim/environ"
try memory-of-daemon dd "if=/proc/$daemon/mem" bs=1 count=1 skip=4194304
try oom-score sh -c "echo 1000 > /proc/$daemon/oom_score_adj"
try raw-disk mknod disk b 8 0
try core-pattern sh -c 'cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern'
try resume "$3" resume
try temp-shared overwrite "/tmp/agency-hostile-$$"
if [ -f .git ]; then
  common=$(git rev-parse --path-format=absolute --git-common-dir)
  try worktree-config append "$common/config"
  try worktree-hooks overwrite "$common/hooks/post-commit"
  try worktree-info append "$common/info/exclude"
  try worktree-head overwrite "$common/HEAD"
  try worktree-main overwrite "$common/refs/heads/main"
  try worktree-owner-tree overwrite "$stage/repo/README.md"
  echo work > work.txt
  if git add work.txt && git -c user.name=x -c user.email=x@x commit --quiet -m work; then
    echo "works commit"
  fi
else
  try own-config sh -c 'git config core.fsmonitor ./x'
  git config --unset core.fsmonitor
fi
echo x > "$TMPDIR/mine" && echo "works temp"
mkdir -p "$HOME/.cache/x" && echo "works cache"
echo x > /dev/null && echo x > /dev/full 2> /dev/null || echo "works devices"
sh -c 'kill -0 $$' && echo "works own-signal"
echo "works end"
rm -f mine taken linked way key disk
