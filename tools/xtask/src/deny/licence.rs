//! Licence expressions: `MIT OR Apache-2.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`, and the older `MIT/Apache-2.0`.

/// Whether an expression can be satisfied with licences that `is_allowed` accepts. One that cannot be read cannot.
pub(super) fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0 };
    any_of(&mut words, is_allowed) == Some(true) && words.peek().is_none()
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.next += 1;
        word
    }

    fn take_if(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }
}

fn any_of(words: &mut Words<'_>, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut satisfied = all_of(words, is_allowed)?;
    while words.take_if("OR") {
        // Both sides are always read: what follows has to be found behind them.
        satisfied |= all_of(words, is_allowed)?;
    }
    Some(satisfied)
}

fn all_of(words: &mut Words<'_>, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut satisfied = one(words, is_allowed)?;
    while words.take_if("AND") {
        satisfied &= one(words, is_allowed)?;
    }
    Some(satisfied)
}

fn one(words: &mut Words<'_>, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    if words.take_if("(") {
        let satisfied = any_of(words, is_allowed)?;
        return words.take_if(")").then_some(satisfied);
    }
    let licence = words.take()?;
    if words.take_if("WITH") {
        // An exception only ever permits more, but the list may name it to be plain.
        let with_exception = format!("{licence} WITH {}", words.take()?);
        return Some(is_allowed(&with_exception) || is_allowed(licence));
    }
    Some(is_allowed(licence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satisfied(expression: &str) -> bool {
        is_satisfied(expression, &|licence| ["MIT", "Apache-2.0", "Unicode-3.0"].contains(&licence))
    }

    #[test]
    fn expressions_are_read_as_written() {
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "MIT AND Apache-2.0",
            "(GPL-3.0 OR MIT) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND ISC OR MIT",
        ] {
            assert!(satisfied(expression), "{expression}");
        }
    }

    #[test]
    fn unlisted_licences_do_not_satisfy() {
        for expression in ["GPL-3.0", "MIT AND GPL-3.0", "GPL-3.0 OR ISC", "(MIT OR ISC) AND GPL-3.0"] {
            assert!(!satisfied(expression), "{expression}");
        }
    }

    #[test]
    fn expression_that_cannot_be_read_does_not_satisfy() {
        for expression in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT WITH"] {
            assert!(!satisfied(expression), "{expression}");
        }
    }
}
