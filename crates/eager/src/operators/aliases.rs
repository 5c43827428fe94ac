//! Other names of operators: PyTorch runs the operator of the first name by calling that of the second, with the same arguments.

/// Names and the operators that they call (`UnaryOps.cpp`, `BinaryOps.cpp`, `LinearAlgebra.cpp`). Both have the same overloads, and in
/// their in-place forms an underscore.
const ALIASES: &[(&str, &str)] = &[
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("clip", "clamp"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("linalg_diagonal", "diagonal"),
    ("linalg_matmul", "matmul"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("special_digamma", "digamma"),
    ("special_erf", "erf"),
    ("special_erfc", "erfc"),
    ("special_erfinv", "erfinv"),
    ("special_exp2", "exp2"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_gammaln", "lgamma"),
    ("special_i0", "i0"),
    ("special_log1p", "log1p"),
    ("special_log_softmax", "log_softmax"),
    ("special_logsumexp", "logsumexp"),
    ("special_psi", "digamma"),
    ("special_sinc", "sinc"),
    ("special_softmax", "softmax"),
    ("subtract", "sub"),
    ("true_divide", "div"),
];

/// The name of the operator that runs instead of this one, such as `aten.mul_.Tensor` for `aten.multiply_.Tensor`.
pub(super) fn target(name: &str) -> Option<String> {
    let (base, overload) = name.strip_prefix("aten.")?.split_once('.')?;
    let (plain, in_place) = base.strip_suffix('_').map_or((base, ""), |plain| (plain, "_"));
    let (_, known) = ALIASES.iter().find(|(alias, _)| *alias == plain)?;
    // The only overload there has the arguments of this one here.
    let overload = if plain.ends_with("softmax") { "int" } else { overload };
    Some(format!("aten.{known}{in_place}.{overload}"))
}

#[cfg(test)]
mod tests {
    use super::super::facts::MemoryRule;
    use super::super::table;
    use super::*;

    #[test]
    fn every_alias_is_of_an_operator_with_a_rule() {
        for (alias, known) in ALIASES {
            let overloads = ["default", "Tensor", "int"];
            let has_rule = overloads.iter().any(|overload| {
                let facts = table::facts(table::find(&format!("aten.{known}.{overload}")));
                matches!(facts.memory, MemoryRule::Modelled(_))
            });
            assert!(has_rule, "{alias} is {known}, which has no rule");
        }
    }

    #[test]
    fn an_alias_in_place_is_the_operator_in_place() {
        assert_eq!(target("aten.multiply_.Tensor").as_deref(), Some("aten.mul_.Tensor"));
        assert_eq!(target("aten.absolute.default").as_deref(), Some("aten.abs.default"));
        assert_eq!(target("aten.mul.Tensor"), None);
        assert_eq!(target("torchvision.clip.default"), None);
    }
}
