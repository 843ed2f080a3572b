//! A notification on this machine's desktop, when somebody's session is there. Text goes as arguments, never as a script.

use super::Outgoing;
use super::command::CommandSender;
use crate::config::Env;
use crate::escalate::message::Message;
use crate::escalate::pace::Outcome;
use crate::escalate::shapes::escape_html;
use crate::model::{Severity, clip};

const BODY_MAX: usize = 300;
/// Takes title and text as arguments: nothing is pasted into the script.
const APPLE_SCRIPT: &str =
    "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";

pub(in crate::escalate) struct Desktop {
    notifier: CommandSender,
    session: Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Linux,
    MacOs,
    None,
}

impl Desktop {
    pub(in crate::escalate) fn new(env: &Env) -> Self {
        let session = session(env, cfg!(target_os = "macos"));
        let program: &[&str] = match session {
            Session::MacOs => &["osascript", "-e", APPLE_SCRIPT],
            Session::Linux | Session::None => &["notify-send"],
        };
        let program: Vec<String> = program.iter().map(|&word| word.to_owned()).collect();
        Self { notifier: CommandSender::new(&program, env), session }
    }

    pub(in crate::escalate) async fn send(&self, outgoing: &Outgoing) -> Outcome {
        if self.session == Session::None {
            return Outcome::later("nobody's desktop session is there");
        }
        self.notifier.run_with(arguments(&outgoing.message, self.session)).await
    }
}

fn session(env: &Env, apple: bool) -> Session {
    let screen = env.get("DISPLAY").or_else(|| env.get("WAYLAND_DISPLAY"));
    let bus = env.get("DBUS_SESSION_BUS_ADDRESS").or_else(|| env.get("XDG_RUNTIME_DIR"));
    match (apple, screen.and(bus)) {
        (true, _) => Session::MacOs,
        (false, Some(_)) => Session::Linux,
        (false, None) => Session::None,
    }
}

fn arguments(message: &Message, session: Session) -> Vec<String> {
    let title = clip(&message.title(), 100);
    let body = clip(&format!("{}. To resolve it: {}", message.what, message.resolve), BODY_MAX);
    if session == Session::MacOs {
        return vec![title, body];
    }
    let urgency = match message.severity {
        Severity::Notice => "low",
        Severity::Warning => "normal",
        Severity::Critical => "critical",
    };
    // Some notification servers read markup in the body.
    let urgency = format!("--urgency={urgency}");
    vec!["--app-name=agency".to_owned(), urgency, "--".to_owned(), title, escape_html(&body)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escalate::message::Kind;
    use crate::escalate::outbox::{Record, tests::record};
    use crate::escalate::redact::Redactor;

    // covers: ES-01 ES-05
    #[test]
    fn text_is_an_argument_and_never_markup_or_an_option() {
        let record = Record { what: "--help <b>x</b>".to_owned(), ..record("a1b2c3d4e5f6") };
        let message = Message::of(&record, Kind::Opened, 1, &Redactor::default());
        let linux = arguments(&message, Session::Linux);
        assert_eq!(linux[2], "--");
        assert!(linux[4].starts_with("--help &lt;b&gt;x"), "{}", linux[4]);
        assert_eq!(arguments(&message, Session::MacOs).len(), 2);
    }

    #[test]
    fn without_a_session_there_is_no_desktop() {
        assert_eq!(session(&Env::default(), false), Session::None);
        let env = Env::from_iter([("DISPLAY", ":0"), ("XDG_RUNTIME_DIR", "/run/user/1")]);
        assert_eq!((session(&env, false), session(&env, true)), (Session::Linux, Session::MacOs));
    }
}
