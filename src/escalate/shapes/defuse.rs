//! Text that no chat program takes for a mention, a link or a tag. It keeps every visible character.

/// Invisible, and enough to break a mention or a link apart.
const BREAK: char = '\u{200b}';
/// Words that reach a whole room.
const ROOMS: &[&str] = &["everyone", "here", "channel", "all", "group", "team"];
/// Pairs that open a mention, a tag or the target of a link.
const PAIRS: &[&str] = &["<!", "<@", "<#", "<at", "</at", "](", "]["];

/// Breaks apart whatever some chat program would act on.
pub(super) fn defuse(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        safe.push(c);
        if !matches!(c, '@' | '<' | ']') {
            continue;
        }
        let rest = &text[at..];
        let room = c == '@' && ROOMS.iter().any(|room| starts_with(&rest[1..], room));
        if room || PAIRS.iter().any(|pair| starts_with(rest, pair)) {
            safe.push(BREAK);
        }
    }
    safe
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// `&`, `<`, `>` and quotes as HTML, Slack and notification servers want them.
pub(crate) fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

/// At most `limit` UTF-16 units, as chat programs count. `escape` may write more than one character for each; what it
/// writes for one is kept whole or not at all.
pub(super) fn fit(text: &str, limit: usize, escape: impl Fn(char, &mut String)) -> String {
    let (mut out, mut used, mut cut) = (String::with_capacity(text.len()), 0, 0);
    for c in text.chars() {
        let start = out.len();
        escape(c, &mut out);
        used += out[start..].chars().map(char::len_utf16).sum::<usize>();
        if used > limit {
            out.truncate(cut);
            out.push('…');
            break;
        }
        // The mark of a cut needs room, too.
        if used < limit {
            cut = out.len();
        }
    }
    out
}
