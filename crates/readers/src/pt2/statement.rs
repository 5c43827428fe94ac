//! What a line of Python does to names, which decides when tensors are freed.
//!
//! A stack trace shows one line of a statement: often its first, without the brackets it opens being closed; sometimes
//! another, such as a keyword argument on a line of its own. Ruff's parser recovers from such fragments.

use ruff_python_ast::token::{Token, TokenKind};
use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};
use ruff_text_size::{Ranged, TextRange, TextSize};

/// Methods that store their argument in something that outlives the line.
const STORES: [&str; 6] = ["append", "extend", "insert", "appendleft", "update", "setdefault"];

/// Clauses that continue a statement of an earlier line, and a statement they can follow.
const CLAUSES: [(&str, &str); 4] =
    [("elif", "if 1: pass\n"), ("else", "if 1: pass\n"), ("except", "try: pass\n"), ("finally", "try: pass\n")];

/// A longer line is not parsed.
const LENGTH_LIMIT: usize = 2_000;

/// What a line does; it may be the first or another line of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedLine<'a> {
    /// The names that it binds; those of the last statement that binds any.
    pub(super) targets: Vec<&'a str>,
    /// Whether its last statement is a `return`.
    pub(super) is_return: bool,
    /// Whether it stores something where no local name shows it: an attribute, an element, a list.
    pub(super) is_storing: bool,
    /// Whether it takes something out of a list, which then no longer holds it.
    pub(super) is_taking: bool,
    /// Whether several of its statements can create a tensor: which of them did is not known.
    pub(super) has_several: bool,
    /// How many calls, operators and indices it has. Where it runs more operators than that, it calls a function that does.
    pub(super) operations: u32,
}

/// Parses a line.
pub(super) fn parse(text: &str) -> ParsedLine<'_> {
    if text.len() > LENGTH_LIMIT {
        return ParsedLine::default();
    }
    let first_word = text.split(|it: char| !(it.is_alphanumeric() || it == '_')).next().unwrap_or("");
    let before = CLAUSES.iter().find(|(clause, _)| *clause == first_word).map_or("", |(_, before)| before);
    let whole = format!("{before}{text}");
    let Some(parsed) = parse_unchecked(&whole, ParseOptions::from(Mode::Module)).try_into_module() else {
        return ParsedLine::default();
    };
    let line = Line { text, offset: TextSize::of(before), parsed: &parsed };
    line.read()
}

/// A line, parsed after `offset` bytes of another statement.
struct Line<'a, 'parsed> {
    text: &'a str,
    offset: TextSize,
    parsed: &'parsed Parsed<ModModule>,
}

impl<'a> Line<'a, '_> {
    fn read(&self) -> ParsedLine<'a> {
        let mut statements = Vec::new();
        simple_statements(&self.parsed.syntax().body, &mut statements);
        let tokens = self.parsed.tokens();
        let mut line = ParsedLine {
            is_storing: self.calls_method(tokens, &STORES),
            is_taking: self.calls_method(tokens, &["pop"]),
            operations: tokens.iter().filter(|token| is_operation(token.kind())).count() as u32,
            ..ParsedLine::default()
        };
        let closes_outer_bracket = closes_outer_bracket(tokens);
        let mut makers = 0;
        for statement in statements {
            line.is_return = matches!(statement, Stmt::Return(_));
            let targets = targets(statement).filter(|_| !closes_outer_bracket && !self.is_argument(statement));
            let tokens = within(tokens, statement.range());
            // Storing what a name holds creates nothing; storing the result of a call may.
            let calls = tokens.iter().filter(|token| token.kind() == TokenKind::Lpar).count();
            let stores_new = calls > 1 && self.calls_method(tokens, &STORES);
            makers += usize::from(line.is_return || targets.is_some() || stores_new);
            if let Some(targets) = targets {
                let mut names = Vec::new();
                match targets.into_iter().all(|target| self.names(target, &mut names)) {
                    true => line.targets = names,
                    false => line.is_storing = true,
                }
            }
        }
        if line.is_return {
            line.targets.clear();
        }
        line.has_several = makers > 1;
        line
    }

    /// The line's text in a range of the parsed text.
    fn slice(&self, range: TextRange) -> &'a str {
        let at = |position: TextSize| position.checked_sub(self.offset).map(usize::from);
        let range = at(range.start()).zip(at(range.end()));
        range.and_then(|(start, end)| self.text.get(start..end)).unwrap_or("")
    }

    /// Adds the names that an assignment to `target` binds; whether it binds nothing else.
    fn names(&self, target: &Expr, names: &mut Vec<&'a str>) -> bool {
        match target {
            // Where a target is missing the parser makes up a name without text.
            Expr::Name(name) => {
                names.extend(Some(self.slice(name.range())).filter(|name| !name.is_empty()));
                true
            }
            Expr::Starred(starred) => self.names(&starred.value, names),
            Expr::Tuple(tuple) => tuple.elts.iter().all(|target| self.names(target, names)),
            Expr::List(list) => list.elts.iter().all(|target| self.names(target, names)),
            _ => false,
        }
    }

    /// Whether one of these methods is called.
    fn calls_method(&self, tokens: &[Token], methods: &[&str]) -> bool {
        tokens.windows(3).any(|three| {
            let kinds = [three[0].kind(), three[1].kind(), three[2].kind()];
            kinds == [TokenKind::Dot, TokenKind::Name, TokenKind::Lpar]
                && methods.contains(&self.slice(three[1].range()))
        })
    }

    /// Whether what parses as an assignment is a keyword argument on a line of its own, by its style: no space before the
    /// `=`, and a comma after the value or another argument before the name.
    fn is_argument(&self, statement: &Stmt) -> bool {
        let tokens = within(self.parsed.tokens(), statement.range());
        let Some(sign) = tokens.iter().find(|token| token.kind() == TokenKind::Equal) else { return false };
        let left = self.slice(TextRange::new(statement.start(), sign.start()));
        let mut from_end = tokens.iter().rev().map(|token| token.kind());
        let ends_with_comma =
            from_end.find(|kind| !kind.is_trivia() && !kind.is_any_newline()) == Some(TokenKind::Comma);
        !left.ends_with(' ') && (ends_with_comma || left.contains(' '))
    }
}

/// The statements without a body, in order, those within bodies included.
fn simple_statements<'a>(body: &'a [Stmt], found: &mut Vec<&'a Stmt>) {
    for statement in body {
        match statement {
            Stmt::FunctionDef(it) => simple_statements(&it.body, found),
            Stmt::For(it) => simple_statements(&it.body, found),
            Stmt::While(it) => simple_statements(&it.body, found),
            Stmt::With(it) => simple_statements(&it.body, found),
            Stmt::If(it) => {
                simple_statements(&it.body, found);
                it.elif_else_clauses.iter().for_each(|clause| simple_statements(&clause.body, found));
            }
            Stmt::Try(it) => {
                simple_statements(&it.body, found);
                for handler in &it.handlers {
                    let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                    simple_statements(&handler.body, found);
                }
                simple_statements(&it.finalbody, found);
            }
            _ => found.push(statement),
        }
    }
}

/// The tokens in a range. `Tokens::in_range` panics where a range ends inside of a token, which a recovered statement's may.
fn within(tokens: &[Token], range: TextRange) -> &[Token] {
    let start = tokens.partition_point(|token| token.start() < range.start());
    let end = tokens.partition_point(|token| token.end() <= range.end());
    &tokens[start..end.max(start)]
}

/// Whether a token can run an operator: a call, an operator or an index.
fn is_operation(kind: TokenKind) -> bool {
    let is_arithmetic = matches!(
        kind,
        TokenKind::Plus
            | TokenKind::Minus
            | TokenKind::Star
            | TokenKind::DoubleStar
            | TokenKind::Slash
            | TokenKind::DoubleSlash
            | TokenKind::Percent
            | TokenKind::At
            | TokenKind::Amper
            | TokenKind::Vbar
            | TokenKind::CircumFlex
            | TokenKind::Tilde
            | TokenKind::EqEqual
            | TokenKind::NotEqual
            | TokenKind::Less
            | TokenKind::LessEqual
            | TokenKind::Greater
            | TokenKind::GreaterEqual
            | TokenKind::PlusEqual
            | TokenKind::MinusEqual
            | TokenKind::StarEqual
            | TokenKind::SlashEqual
    );
    is_arithmetic || matches!(kind, TokenKind::Lpar | TokenKind::Lsqb)
}

/// What a statement assigns to.
fn targets(statement: &Stmt) -> Option<Vec<&Expr>> {
    match statement {
        Stmt::Assign(it) => Some(it.targets.iter().collect()),
        Stmt::AugAssign(it) => Some(vec![&it.target]),
        Stmt::AnnAssign(it) if it.value.is_some() => Some(vec![&it.target]),
        _ => None,
    }
}

/// Whether a line closes a bracket that an earlier line has opened.
fn closes_outer_bracket(tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match token.kind() {
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => depth += 1,
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace if depth == 0 => return true,
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => depth -= 1,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_left_are_bound() {
        let targets = |text| parse(text).targets;
        assert_eq!(targets("x = self.layer(x)"), ["x"]);
        assert_eq!(targets("outputs, _ = self.attention("), ["outputs", "_"]);
        assert_eq!(targets("(a, b) = self.halves(x)"), ["a", "b"]);
        assert_eq!(targets("mask: Tensor = make("), ["mask"]);
        assert_eq!(targets("x += y"), ["x"]);
        assert_eq!(targets("x = f(x, scale=2)  # y = 3"), ["x"]);
        for text in [
            "return self.layer(x, scale=2)",
            "attention_mask=self.mask(x),",
            "hidden, mask=self.mask(x)",
            "mask=self.mask(x))",
            "mask = self.mask(x))",
            "self.layer(x, scale = 2)",
            "self.cache = x",
            "x[0] = y",
            "if x == y:",
            "if x <= y:",
            "y := 3",
        ] {
            assert!(targets(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn code_without_spaces_binds_names_too() {
        assert_eq!(parse("x=d(x)").targets, ["x"]);
        assert_eq!(parse("a,b=f(x)").targets, ["a", "b"]);
        assert_eq!(parse("x+=d(x)").targets, ["x"]);
        assert_eq!(parse("for u,b in zip(s.u,s.b): x=b(torch.cat([u(x),skips.pop()],1))").targets, ["x"]);
        assert_eq!(parse("with torch.no_grad(): h=s.a(x)").targets, ["h"]);
        assert_eq!(parse("if x==y:").targets, Vec::<&str>::new());
    }

    #[test]
    fn several_statements_on_a_line_differ_from_one() {
        let line = parse("if i<2: skips.append(x); x=F.avg_pool2d(x,2) if i else F.max_pool2d(x,2)");
        assert_eq!((line.targets, line.has_several, line.is_storing), (vec!["x"], false, true));
        assert!(parse("skips.append(f(x)); x=g(x)").has_several);
        let line = parse("a=s.a(x); return s.o(a)");
        assert_eq!((line.targets.len(), line.has_several, line.is_return), (0, true, true));
        assert!(!parse("x = f(\"a;b\")").has_several);
        assert!(!parse("x = f(x);").has_several);
    }

    #[test]
    fn what_a_line_stores_is_seen() {
        assert!(parse("features.append(layer(x))").is_storing);
        assert!(parse("self.cache = layer(x)").is_storing);
        assert!(parse("features[name] = layer(x)").is_storing);
        assert!(!parse("x = layer(x)").is_storing);
        assert!(!parse("layer(x),").is_storing);
        assert!(parse("x = torch.cat([x, skips.pop()])").is_taking && !parse("x = self.pop").is_taking);
    }

    #[test]
    fn text_in_strings_and_comments_does_not_count() {
        assert!(!parse("x = f('.append(', \"\\\\\")  # y.append(x); z = 3").is_storing);
        assert_eq!(parse("x = f(\"\\\\\"); y = g(x)").targets, ["y"]);
        assert!(parse("mask=self.mask(x),  # of the keys").targets.is_empty());
    }

    #[test]
    fn every_form_of_assignment_binds_its_names() {
        assert_eq!(parse("a = b = f(x)").targets, ["a", "b"]);
        assert_eq!(parse("first, *rest = f(x)").targets, ["first", "rest"]);
        assert_eq!(parse("(a, (b, c)) = f(x)").targets, ["a", "b", "c"]);
        assert_eq!(parse("[a, b] = f(x)").targets, ["a", "b"]);
        assert_eq!(parse("x >>= f(y)").targets, ["x"]);
    }

    #[test]
    fn a_clause_of_an_earlier_statement_is_parsed_too() {
        assert_eq!(parse("else: x = f(x)").targets, ["x"]);
        assert_eq!(parse("elif y: x = f(x)").targets, ["x"]);
        assert!(parse("except ValueError: return f(x)").is_return);
        assert!(parse("finally: xs.append(f(x))").is_storing);
    }

    #[test]
    fn lines_that_are_not_python_do_nothing() {
        let nothing = ParsedLine::default();
        for text in ["", ":", "=", "\"", "\\", ")", "for", "else:", "é", "x = \u{0}"] {
            let line = parse(text);
            assert!(line.targets.len() < 2 && !line.is_return && !line.is_taking && !line.has_several, "{text}");
        }
        assert_eq!(parse("é=é").targets, ["é"]);
        assert_eq!(parse(&format!("x = {}", "y".repeat(LENGTH_LIMIT))), nothing);
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        for part in ["(", "[", "-", "not ", "lambda: ", "f(", "x = ", "a if b else ", "async ", "{"] {
            let text = part.repeat(LENGTH_LIMIT / part.len());
            let line = parse(&text);
            assert!(!line.is_return, "{part}");
        }
    }
}
