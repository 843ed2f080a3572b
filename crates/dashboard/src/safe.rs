//! Texts of the repository and of agents, made harmless to look at: markup is escaped, and characters that steer a terminal, turn
//! the direction of reading or cannot be seen are shown by their number.

use maud::{Markup, PreEscaped, Render, html};

/// A text of somebody else's.
pub(crate) struct Foreign<'a>(pub(crate) &'a str);

impl Render for Foreign<'_> {
    fn render(&self) -> Markup {
        html! { span .q { (inner(self.0)) } }
    }
}

/// For a place that sets its own element, such as `pre`.
pub(crate) fn inner(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + 16);
    let mut plain = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| steers(*c)) {
        escape(&text[plain..at], &mut out);
        plain = at + c.len_utf8();
        out.push_str(&format!("<span class=\"ctl\">{}</span>", name(c)));
    }
    escape(&text[plain..], &mut out);
    PreEscaped(out)
}

/// For an attribute or a title, which hold no elements.
pub(crate) fn flat(text: &str) -> String {
    let show = |c: char| if steers(c) { name(c) } else { c.to_string() };
    text.chars().map(show).collect()
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

fn steers(c: char) -> bool {
    let is_layout = matches!(c, '\n' | '\t');
    (c.is_control() && !is_layout)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn name(c: char) -> String {
    match c {
        '\u{1b}' => "ESC".to_owned(),
        c => format!("U+{:04X}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-04
    #[test]
    fn markup_is_text_and_what_steers_is_shown() {
        let shown = |text: &str| inner(text).into_string();
        assert_eq!(shown("<script>alert(1)</script>"), "&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(shown("a\" onmouseover='x'&"), "a&quot; onmouseover=&#39;x&#39;&amp;");
        assert_eq!(shown("\u{1b}[31mred"), "<span class=\"ctl\">ESC</span>[31mred");
        let bidi = shown("invoice\u{202e}fdp.exe");
        assert_eq!(bidi, "invoice<span class=\"ctl\">U+202E</span>fdp.exe");
        assert_eq!(
            shown("a\u{200b}b\u{e0041}\r"),
            "a<span class=\"ctl\">U+200B</span>b<span class=\"ctl\">U+E0041</span><span class=\"ctl\">U+000D</span>"
        );
        assert_eq!(shown("two\nlines\tand äöü 日本 עברית"), "two\nlines\tand äöü 日本 עברית");
        assert_eq!(flat("a\u{202e}b\n"), "aU+202Eb\n");
    }
}
