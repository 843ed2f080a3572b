#!/usr/bin/env python3
"""night.py - a provider with weather, for a night with real coding CLIs.

    python3 night.py --weather weather.json --keys DIR --log events.jsonl

Answers as mock_llm.py does, but reads what each agent is asked to do from its prompt, as a model would, and has the CLI do it.
Each CLI has a port of its own, so that one provider can be down while the others work. The ports are printed as one line of JSON:
{"claude": 1, "codex": 2, "gemini": 3, "aider": 4}.

WEATHER (JSON): for each CLI a list of troubles. A trouble begins with the first request of a run; the next one begins after a
run has finished since the last.
  {"trouble": "503", "seconds": 20}         every request fails until then; so do "500" and "529"
  {"trouble": "refused", "seconds": 20}     the connection is closed, and nobody listens until then
  {"trouble": "429", "retry_after": 5}      fails until then, and says when
  {"trouble": "usage", "seconds": 30}       a usage limit that is reset then, and says when
  {"trouble": "401"}                        fails until DIR/<cli> says "good"
  {"trouble": "hang"}                       one request is never answered

Each line of the log: {"t": seconds, "cli": …, "trouble": …, "event": "begin" | "refuse" | "end"}.
"""
import argparse, json, re, threading, time, uuid
from http.server import ThreadingHTTPServer

import mock_llm

CLIS = {"claude": "anthropic", "codex": "responses", "gemini": "gemini", "aider": "chat"}
PROMPT = re.compile(r"^You are (the builder of|the auditor of|(the )?`)", re.M)
LOCK = threading.Lock()


# ---------------------------------------------------------------- what the model does
def texts(dialect, req):
    """The texts of the user, oldest first."""
    if dialect == "gemini":
        turns = [c for c in req.get("contents", []) if c.get("role") == "user"]
        return [p["text"] for c in turns for p in c.get("parts") or [] if "text" in p]
    turns = req.get("input") if dialect == "responses" else req.get("messages")
    out = []
    for turn in turns if isinstance(turns, list) else []:
        if turn.get("role") == "user":
            content = turn.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            out += [p["text"] for p in parts if p.get("text")]
    return out


def prompt_of(dialect, req):
    found = [text for text in texts(dialect, req) if PROMPT.search(text)]
    return found[-1][PROMPT.search(found[-1]).start():] if found else None


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"


def plan(dialect, req):
    prompt = prompt_of(dialect, req)
    if prompt is None:
        return None
    if prompt.startswith("You are the auditor of"):
        return {"steps": [], "final": form(prompt)}
    if prompt.startswith("You are the builder of"):
        return build(prompt)
    return loop_turn(prompt) if " of a review loop " in prompt else handoff_turn(prompt)


def form(prompt):
    """The document that the prompt gives as a form."""
    at = prompt.index("---\ntask_id: ")
    return prompt[at:prompt.index("\n---\n", at)] + "\n---\n\nGood.\n"


def build(prompt):
    task = re.match(r"You are the builder of (\S+),", prompt).group(1)
    report = re.search(r"write the report to `([^`]+)`", prompt).group(1)
    text = form(prompt).replace("<ISO time with zone>", now())
    text = re.sub(r"dod_passed: <[^>]*>", "dod_passed: true", text)
    return {"steps": [write("work/%s.txt" % task, "%s\n" % task), write(report, text)], "final": "built"}


def loop_turn(prompt):
    step = re.search(r"Step (\S+) \(", prompt).group(1)
    wanted = ["proposed", "approved", "executed", "verified-clean"]
    flags = re.findall(r'^\{"agent": .*\}$', prompt, re.M)
    flag = next(f for w in wanted for f in flags if '"status": "%s"' % w in f)
    status = json.loads(flag)["status"]
    work = {"proposed": ("ENG_REVIEW_RESPONSE.md", "the plan of step %s\n" % step),
            "approved": ("ENG_REVIEW_COMMENTS.md", "nothing to change in step %s\n" % step),
            "executed": ("src/%s.txt" % step, "step %s\n" % step)}.get(status)
    steps = [{"read": work[0]}, write(*work)] if work else []
    return {"steps": steps + [write(".agent-status.json", flag.replace("<now>", now()))], "final": status}


def handoff_turn(prompt):
    role = re.match(r"You are the `(\w+)`", prompt).group(1)
    iteration = int(re.search(r"\(iteration (\d+)\)", prompt).group(1))
    said = {m[0]: m[1] for m in re.findall(r"^- (\w+): (\{.*\})$", prompt, re.M)}
    name = "needs_fixes" if role == "reviewer" and iteration < 4 else next(
        n for n in ("approved", "completed", "fixes_applied") if n in said)
    message = said[name].replace("<name>", "auth").replace("<now>", now())
    ident = str(uuid.uuid4())
    message = message.replace("<uuid v4>", ident).replace("<path>", "work.txt")
    message = re.sub(r"<(one entry|what the builder)[^>]*>", "work.txt:1 is wrong", message)
    path = ".claude/handoffs/pending/%s.json" % ident
    if role in ("builder", "fixer"):
        return {"steps": [{"shell": COMMIT % (message, path)}], "final": name}
    spec = [write("specs/auth.md", "# Auth\n")] if role == "planner" else []
    return {"steps": spec + [write(path, message + "\n")], "final": name}


# The words of the message stand between quotes; none of them has one.
COMMIT = """set -e
echo "$AGENCY_RUN" >> work.txt
git add work.txt
git -c user.name=Agent -c user.email=agent@example.com commit --quiet -m work
printf '%%s\\n' '%s' | sed "s/<id>/$(git rev-parse HEAD)/" > .claude/message.tmp
mkdir -p .claude/handoffs/pending
mv .claude/message.tmp %s"""


def write(path, content):
    return {"write": {"path": path, "content": content}}


# ---------------------------------------------------------------- the weather
class Sky:
    """The troubles of one CLI, one after the other."""

    def __init__(self, cli, troubles, keys, log):
        self.cli, self.left, self.keys, self.log = cli, list(troubles), keys, log
        self.now, self.began, self.ready, self.server = None, 0.0, True, None

    def note(self, event):
        with LOCK, open(self.log, "a") as f:
            f.write(json.dumps({"t": time.time(), "cli": self.cli, "trouble": self.now["trouble"],
                                "event": event}) + "\n")

    def length(self):
        return self.now.get("seconds", self.now.get("retry_after", 0))

    def is_over(self):
        if self.now["trouble"] == "401":
            with open("%s/%s" % (self.keys, self.cli)) as f:
                return f.read().strip() == "good"
        return time.time() >= self.began + self.length()

    def refuses(self, first):
        """The trouble that this request meets."""
        with LOCK:
            over = self.now is not None and self.is_over()
        if over:
            self.note("end")
            self.now = None
        if self.now is None and self.ready and first and self.left:
            self.now, self.began, self.ready = self.left.pop(0), time.time(), False
            self.note("begin")
            if self.now["trouble"] == "refused":
                threading.Thread(target=self.be_away, daemon=True).start()
        elif self.now is not None:
            self.note("refuse")
        return self.now

    def be_away(self):
        port = self.server.server_address[1]
        self.server.shutdown()
        self.server.server_close()
        time.sleep(max(0, self.began + self.length() - time.time()))
        self.listen(port)

    def listen(self, port):
        self.server = ThreadingHTTPServer(("127.0.0.1", port), mock_llm.Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self.server.server_address[1]


def weather(skies):
    def answer(handler, dialect, req):
        sky = skies[dialect]
        if prompt_of(dialect, req) is None:
            trouble = sky.now
        else:
            trouble = sky.refuses(is_first(dialect, req))
        if trouble is None:
            return False
        kind, left = trouble["trouble"], max(1, round(sky.began + sky.length() - time.time()))
        if kind == "refused":
            mock_llm.fail(handler, "reset", dialect)
        elif kind == "hang":
            sky.note("end")
            sky.now = None
            mock_llm.fail(handler, "hang", dialect)
        else:
            mock_llm.fail(handler, kind, dialect, left)
        return True
    return answer


def is_first(dialect, req):
    """Nothing was done for the newest prompt yet."""
    turns = req.get("contents") if dialect == "gemini" else req.get(
        "input" if dialect == "responses" else "messages")
    last = [n for n, turn in enumerate(turns) if PROMPT.search(json.dumps(turn).replace("\\n", "\n").replace('"', "\n"))]
    after = json.dumps(turns[last[-1] + 1:]) if last else ""
    return not any(word in after for word in ("tool_result", "call_output", "functionResponse"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weather", required=True)
    p.add_argument("--keys", required=True)
    p.add_argument("--log", required=True)
    p.add_argument("--requests", help="append every request as JSON lines")
    args = p.parse_args()
    mock_llm.ARGS = argparse.Namespace(fail=None, fail_after=0, fail_times=0, retry_after=2,
                                       log=args.requests, verbose=False)
    mock_llm.SCRIPT = mock_llm.completed({"final": "nothing to do"})
    troubles = json.load(open(args.weather))
    by_cli = {cli: Sky(cli, troubles.get(cli, []), args.keys, args.log) for cli in CLIS}
    skies = {CLIS[cli]: sky for cli, sky in by_cli.items()}

    def finished(dialect, text):
        if getattr(mock_llm.LOCAL, "script", None):
            skies[dialect].ready = True

    mock_llm.HOOKS.update(plan=plan, weather=weather(skies), begins=lambda text: bool(PROMPT.search(text)),
                          said=finished)
    print(json.dumps({cli: sky.listen(0) for cli, sky in by_cli.items()}), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
