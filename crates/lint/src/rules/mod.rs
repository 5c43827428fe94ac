//! The rules, one file each. A new rule is its file, its page in `docs/lint/`, and its two lines here.

mod evaluated;
mod freed_before_move;
mod group;
mod kept;
mod kept_loop;
mod kept_subject;
mod rule;
mod shape_check;
mod short_loop;
mod teacher;
mod unit_test;
mod vf001;
mod vf002;
mod vf003;
mod vf004;
mod vf005;
mod vf006;
mod vf007;
mod vf008;
mod vf009;
mod vf010;
mod vf011;
mod vf012;
mod vf013;
mod vf014;
mod vf015;
mod vf016;
mod vf017;

pub use rule::Rule;

/// All rules, by code.
pub const RULES: &[Rule] = &[
    vf001::RULE,
    vf002::RULE,
    vf003::RULE,
    vf004::RULE,
    vf005::RULE,
    vf006::RULE,
    vf007::RULE,
    vf008::RULE,
    vf009::RULE,
    vf010::RULE,
    vf011::RULE,
    vf012::RULE,
    vf013::RULE,
    vf014::RULE,
    vf015::RULE,
    vf016::RULE,
    vf017::RULE,
];

/// The rule of that code.
pub fn find(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == code)
}
