//! How many tests a source file has, and how many of them are switched off. It counts words; it parses no language.

use crate::model::RelPath;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) tests: usize,
    pub(super) skipped: usize,
}

struct Language {
    endings: &'static [&'static str],
    tests: &'static [&'static str],
    /// Also what narrows a run down to a few tests.
    skips: &'static [&'static str],
}

const LANGUAGES: &[Language] = &[
    Language {
        endings: &["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"],
        tests: &[
            "it(",
            "test(",
            "it.each",
            "test.each",
            "it.skip(",
            "test.skip(",
            "it.only(",
            "test.only(",
        ],
        skips: &[
            ".skip(",
            ".only(",
            ".todo(",
            "xit(",
            "xtest(",
            "xdescribe(",
            "fit(",
            "fdescribe(",
            ".skipIf(",
            ".fixme(",
        ],
    },
    Language {
        endings: &["rs"],
        tests: &["#[test]", "::test]", "::test(", "#[rstest"],
        skips: &[concat!("#[", "ignore")],
    },
    Language {
        endings: &["py"],
        tests: &["def test_"],
        skips: &["pytest.mark.skip", "unittest.skip", "pytest.skip(", "mark.xfail", "SkipTest"],
    },
    Language {
        endings: &["go"],
        tests: &["func Test"],
        skips: &["t.Skip(", "t.SkipNow(", "t.Skipf("],
    },
    Language { endings: &["dart"], tests: &["test(", "testWidgets("], skips: &["skip:", "@Skip("] },
    Language {
        endings: &["java", "kt"],
        tests: &["@Test", "@ParameterizedTest"],
        skips: &["@Disabled", "@Ignore"],
    },
    Language {
        endings: &["cs"],
        tests: &["[Fact", "[Test]", "[Theory", "[TestMethod]"],
        skips: &["Skip =", "[Ignore"],
    },
    Language {
        endings: &["rb"],
        tests: &["it \"", "it '", "def test_"],
        skips: &["xit ", "skip(", "pending("],
    },
];

pub(super) fn is_code(path: &RelPath) -> bool {
    language(path).is_some()
}

fn language(path: &RelPath) -> Option<&'static Language> {
    let (_, ending) = path.file_name().rsplit_once('.')?;
    LANGUAGES.iter().find(|language| language.endings.contains(&ending))
}

pub(super) fn count(path: &RelPath, text: &str) -> Count {
    let Some(language) = language(path) else { return Count::default() };
    let code = text.lines().map(str::trim_start).filter(|line| !is_comment(line));
    code.fold(Count::default(), |so_far, line| Count {
        tests: so_far.tests + occurrences(line, language.tests),
        skipped: so_far.skipped + occurrences(line, language.skips),
    })
}

/// A test that is commented out is gone.
fn is_comment(line: &str) -> bool {
    line.starts_with("//")
        || line.starts_with("/*")
        || (line.starts_with('#') && !line.starts_with("#["))
}

fn occurrences(line: &str, words: &[&str]) -> usize {
    words
        .iter()
        .map(|word| line.match_indices(word).filter(|(at, _)| begins(line, *at, word)).count())
        .sum()
}

/// `it(` in `submit(` is no test.
fn begins(line: &str, at: usize, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    !word.starts_with(char::is_alphanumeric) || !line[..at].ends_with(joins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &'static str, text: &str) -> (usize, usize) {
        let count = count(&RelPath::fixed(path), text);
        (count.tests, count.skipped)
    }

    #[test]
    fn tests_and_sleeping_tests_are_counted_by_language() {
        assert_eq!(
            counted(
                "a.rs",
                &format!("#[test]\nfn a() {{}}\n#[test]\n#[{}]\n// #[test]\n", "ignore")
            ),
            (2, 1)
        );
        assert_eq!(counted("a.ts", "submit(x); it('a')\n  test.only('b')\n// it('c')\n"), (2, 1));
        assert_eq!(
            counted("a.py", "def test_a():\n@pytest.mark.skip\ndef test_b():\n# def test_c\n"),
            (2, 1)
        );
        assert_eq!(counted("a_test.go", "func TestA(t *testing.T) {\n\tt.Skip(\"x\")\n"), (1, 1));
        assert_eq!(counted("a.md", "it('a')"), (0, 0));
    }
}
