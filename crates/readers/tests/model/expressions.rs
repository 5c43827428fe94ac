//! Expressions: read, written and evaluated as Python would.

use proptest::prelude::*;
use vramfit_graph::expression::{EvaluateError, Expression, ParseError};

const NAMES: [&str; 3] = ["batch", "seq", "h_2"];

fn parse(text: &str) -> Result<Expression, ParseError> {
    Expression::parse(text, |name| NAMES.iter().position(|known| *known == name).map(|at| at as u32))
}

fn evaluate(text: &str) -> Result<i64, EvaluateError> {
    parse(text).expect("it is an expression").evaluate(&[8, 128, 7])
}

#[test]
fn precedence_is_pythons() {
    assert_eq!(evaluate("2+3*4"), Ok(14));
    assert_eq!(evaluate("(2+3)*4"), Ok(20));
    assert_eq!(evaluate("2-3-4"), Ok(-5));
    assert_eq!(evaluate("100//7//2"), Ok(7));
    assert_eq!(evaluate("-3*-4"), Ok(12));
    assert_eq!(evaluate("--3"), Ok(3));
    assert_eq!(evaluate("-7//2"), Ok(-4));
    assert_eq!(evaluate(" batch * ( seq - 1 ) // 2 "), Ok(508));
    assert_eq!(evaluate("h_2"), Ok(7));
}

#[test]
fn division_rounds_down() {
    for (left, right, quotient) in
        [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3), (6, -2, -3), (-6, 2, -3), (0, -5, 0)]
    {
        assert_eq!(evaluate(&format!("({left})//({right})")), Ok(quotient), "{left}//{right}");
    }
}

#[test]
fn what_does_not_fit_64_bits_is_an_error() {
    let largest = i64::MAX;
    assert_eq!(evaluate(&format!("{largest}")), Ok(largest));
    assert_eq!(evaluate(&format!("-{largest}-1")), Ok(i64::MIN));
    for text in [
        format!("{largest}+1"),
        format!("-{largest}-2"),
        format!("{largest}*2"),
        format!("-(-{largest}-1)"),
        format!("(-{largest}-1)//-1"),
    ] {
        assert_eq!(evaluate(&text), Err(EvaluateError::Overflow), "{text}");
    }
}

#[test]
fn division_by_zero_is_an_error() {
    assert_eq!(evaluate("batch//(seq-128)"), Err(EvaluateError::DivisionByZero));
}

#[test]
fn a_symbol_without_a_value_is_an_error() {
    let expression = parse("batch*seq").expect("it is an expression");
    let error = expression.evaluate(&[8]).expect_err("there is no value for seq");
    assert_eq!(error, EvaluateError::MissingSymbol { symbol: 1, count: 1 });
    assert_eq!(error.to_string(), "needs symbol 1; 1 are given");
}

#[test]
fn a_bare_symbol_is_known_as_one() {
    let symbol = |text| parse(text).expect("it is an expression").as_symbol();
    assert_eq!(symbol("seq"), Some(1));
    assert_eq!(symbol("(seq)"), Some(1));
    assert_eq!(symbol("seq+0"), None);
    assert_eq!(symbol("1"), None);
    let symbols: Vec<u32> = parse("seq*(batch+seq)").expect("it is an expression").symbols().collect();
    assert_eq!(symbols, [1, 0, 1]);
}

#[test]
fn texts_that_are_no_expression_are_refused() {
    let message = |text: &str| parse(text).expect_err("it is no expression").to_string();
    assert_eq!(message(""), "the expression is empty");
    assert_eq!(message("   "), "the expression is empty");
    assert_eq!(message("1+"), "the expression ends where a number, a symbol, `-` or `(` was needed");
    assert_eq!(message("(1"), "the expression ends where an operator or `)` was needed");
    assert_eq!(message("1 2"), "found `2` at character 2, needed `+`, `-`, `*` or `//`");
    assert_eq!(message("1/2"), "found `2` at character 2, needed a second `/`");
    assert_eq!(message("1/"), "the expression ends where a second `/` was needed");
    assert_eq!(message("*2"), "found `*` at character 0, needed a number, a symbol, `-` or `(`");
    assert_eq!(message("batch%2"), "found `%` at character 5, needed `+`, `-`, `*` or `//`");
    assert_eq!(message("(batch))"), "found `)` at character 7, needed `+`, `-`, `*` or `//`");
    assert_eq!(message("batch*größe"), "names symbol `größe`, which is not one of the model's");
    assert_eq!(message("9223372036854775808"), "the number 9223372036854775808 does not fit 64 bits");
}

#[test]
fn length_and_depth_have_limits() {
    let chain = |length: usize| vec!["1"; length].join("+");
    assert_eq!(parse(&chain(512)).expect("it is an expression").evaluate(&[]), Ok(512));
    assert_eq!(parse(&chain(514)), Err(ParseError::TooManyOperations));
    assert_eq!(parse(&chain(2050)), Err(ParseError::TooLong { length: 4099 }));
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(32)).is_ok());
    assert_eq!(parse(&nested(33)), Err(ParseError::TooDeep));
    assert!(parse(&format!("{}1", "-".repeat(32))).is_ok());
    assert_eq!(parse(&format!("{}1", "-".repeat(33))), Err(ParseError::TooDeep));
    let right = |depth: usize| format!("{}1{}", "1-(".repeat(depth), ")".repeat(depth));
    assert!(parse(&right(31)).expect("it is an expression").evaluate(&[]).is_ok());
    assert_eq!(parse(&right(32)), Err(ParseError::TooDeep));
}

#[test]
fn only_needed_parentheses_are_written() {
    let written = |text: &str| parse(text).expect("it is an expression").named(&NAMES).to_string();
    assert_eq!(written("((batch))*(seq)"), "batch*seq");
    assert_eq!(written("(batch+1)+(seq+1)"), "batch+1+(seq+1)");
    assert_eq!(written("(batch*2)//(seq*2)"), "batch*2//(seq*2)");
    assert_eq!(written("-(batch+1)"), "-(batch+1)");
    assert_eq!(written("(-batch)*-seq"), "-batch*-seq");
    assert_eq!(written("-(batch*seq)"), "-(batch*seq)");
    assert_eq!(parse("batch*seq").expect("it is an expression").to_string(), "$0*$1");
}

/// An expression as a tree, to compare with.
#[derive(Clone, Debug)]
enum Tree {
    Integer(i64),
    Symbol(usize),
    Negate(Box<Tree>),
    Pair(&'static str, Box<Tree>, Box<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Tree::Integer(value) => value.to_string(),
            Tree::Symbol(symbol) => NAMES[*symbol].to_owned(),
            Tree::Negate(inner) => format!("-({})", inner.text()),
            Tree::Pair(sign, left, right) => format!("({}){sign}({})", left.text(), right.text()),
        }
    }

    fn evaluate(&self, symbols: &[i64]) -> Option<i128> {
        let value = match self {
            Tree::Integer(value) => i128::from(*value),
            Tree::Symbol(symbol) => i128::from(symbols[*symbol]),
            Tree::Negate(inner) => -inner.evaluate(symbols)?,
            Tree::Pair(sign, left, right) => {
                let (left, right) = (left.evaluate(symbols)?, right.evaluate(symbols)?);
                match *sign {
                    "+" => left + right,
                    "-" => left - right,
                    "*" => left * right,
                    _ if right == 0 => return None,
                    // For a positive divisor Euclid's division rounds down; the signs may be turned together.
                    _ if right < 0 => (-left).div_euclid(-right),
                    _ => left.div_euclid(right),
                }
            }
        };
        i64::try_from(value).is_ok().then_some(value)
    }
}

fn some_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (0_i64..20).prop_map(Tree::Integer),
        (0..=i64::MAX).prop_map(Tree::Integer),
        (0_usize..3).prop_map(Tree::Symbol),
    ];
    leaf.prop_recursive(6, 40, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Tree::Negate(Box::new(inner))),
            (prop::sample::select(vec!["+", "-", "*", "//"]), inner.clone(), inner)
                .prop_map(|(sign, left, right)| Tree::Pair(sign, Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_as_the_same(tree in some_tree()) {
        let expression = parse(&tree.text()).expect("it is an expression");
        let written = expression.named(&NAMES).to_string();
        prop_assert!(written.len() <= tree.text().len());
        prop_assert_eq!(parse(&written), Ok(expression));
    }

    #[test]
    fn values_are_those_of_the_tree(
        tree in some_tree(),
        symbols in prop_oneof![prop::array::uniform3(-20_i64..20), prop::array::uniform3(any::<i64>())],
    ) {
        let expression = parse(&tree.text()).expect("it is an expression");
        prop_assert_eq!(expression.evaluate(&symbols).ok().map(i128::from), tree.evaluate(&symbols));
    }

    #[test]
    fn any_text_is_an_expression_or_refused(text in "(batch|seq|[0-9]{1,3}|[-+*()/ %]|//|\\PC){0,20}") {
        match parse(&text) {
            Ok(expression) => {
                let written = expression.named(&NAMES).to_string();
                prop_assert_eq!(parse(&written), Ok(expression));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn multiples_of_one_symbol_are_solved() {
    let linear = |text: &str| parse(text).expect("it is an expression").linear();
    for (text, value, solved) in [
        ("seq", 7, Some(7)),
        ("2*seq", 512, Some(256)),
        ("2*seq", 513, None),
        ("seq*3+1", 10, Some(3)),
        ("seq-1", 7, Some(8)),
        ("10-seq", 7, Some(3)),
        ("seq+seq", 8, Some(4)),
        ("-(2*seq)", -8, Some(4)),
        ("(4*seq+6)//2", 11, Some(4)),
        ("2*seq", i64::MIN, Some(i64::MIN / 2)),
        ("-seq", i64::MIN, None),
        ("seq-1", i64::MAX, None),
    ] {
        assert_eq!(linear(text).expect(text).solve(value), solved, "{text} = {value}");
    }
    for text in [
        "3",
        "seq*seq",
        "seq*batch",
        "seq+batch",
        "seq//2",
        "seq//0",
        "seq-seq",
        "0*seq",
        "max(1,seq)",
        "4611686018427387904*4*seq",
    ] {
        assert_eq!(linear(text), None, "{text}");
    }
}
