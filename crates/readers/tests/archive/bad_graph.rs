//! Graphs that are none: each error names the entry, the node and the field.

use vramfit_graph::bind::{BindError, bind};
use vramfit_graph::select::Sizes;
use vramfit_readers::read_bytes;

use super::small::{archive, error, graph};

#[test]
fn an_unchanged_graph_is_read() {
    assert!(read_bytes(&archive(&graph("tiny-meta.pt2"))).is_ok());
}

#[test]
fn a_tensor_that_nothing_defines_is_named() {
    let error = error(
        r#""arg": {"as_tensor": {"name": "p_up_weight"}}, "kind""#,
        r#""arg": {"as_tensor": {"name": "p_x"}}, "kind""#,
    );
    assert_eq!(
        error.to_string(),
        "models/model.json: node `linear`: argument `weight` names tensor `p_x`, which no input or node defines"
    );
    assert!(error.hint().unwrap().contains("torch.export.save"));
}

#[test]
fn a_node_that_uses_its_own_result_is_named() {
    let error =
        error(r#"{"as_tensor": {"name": "layer_norm"}}, "kind""#, r#"{"as_tensor": {"name": "relu_"}}, "kind""#);
    assert_eq!(
        error.to_string(),
        "models/model.json: node `relu_`: argument `self` names tensor `relu_`, which no input or node defines"
    );
}

#[test]
fn a_size_that_nothing_defines_is_named() {
    let graph = graph("tiny-meta.pt2").replace(r#""sym_int_values": {""#, r#""sym_int_values": {"another_"#);
    let error = read_bytes(&archive(&graph)).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("models/model.json: node `mean`: argument "), "{error}");
    assert!(error.ends_with("names size `sym_size_int_2`, which no input or node defines"), "{error}");
}

#[test]
fn a_result_of_the_graph_that_nothing_makes_is_named() {
    let error = error(
        r#""outputs": [{"as_tensor": {"name": "linear_2"}}], "nodes""#,
        r#""outputs": [{"as_tensor": {"name": "gone"}}], "nodes""#,
    );
    let text = "models/model.json: graph.outputs[0] names tensor `gone`, which no input or node defines";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_signature_that_says_less_or_more_than_the_graph_is_refused() {
    let output = r#"{"user_output": {"arg": {"as_tensor": {"name": "linear_2"}}}}"#;
    let without = error(output, "").to_string();
    assert_eq!(without, "models/model.json: signature.output_specs: found 0 entries, but graph.outputs has 1");
    let input = r#"{"parameter": {"arg": {"name": "p_embed_weight"}, "parameter_name": "embed.weight"}}"#;
    let twice = error(input, &format!("{input}, {input}")).to_string();
    assert!(twice.starts_with("models/model.json: signature.input_specs"), "{twice}");
    assert!(twice.contains("`p_embed_weight`"), "{twice}");
    let other = error(input, &format!("{input}, {}", input.replace("p_embed", "p_other"))).to_string();
    assert!(other.starts_with("models/model.json: signature.input_specs: found "), "{other}");
}

#[test]
fn a_range_without_a_value_is_refused() {
    let error = error(r#"{"min_val": 0, "max_val": 512}"#, r#"{"min_val": 9, "max_val": 3}"#).to_string();
    assert_eq!(error, "models/model.json: range_constraints[`s27`]: min_val 9 is greater than max_val 3");
}

#[test]
fn an_argument_that_the_operator_does_not_have_is_named() {
    let error = error(r#"{"name": "normalized_shape","#, r#"{"name": "normalised","#).to_string();
    assert_eq!(
        error,
        "models/model.json: node `layer_norm`: the operator `aten.layer_norm.default` has no argument `normalised`"
    );
}

#[test]
fn a_tensor_without_a_type_is_named() {
    let error = error(r#""layer_norm": {"dtype""#, r#""another": {"dtype""#).to_string();
    assert_eq!(error, "models/model.json: node `layer_norm`: tensor `layer_norm` is not in `tensor_values`");
}

#[test]
fn a_size_below_zero_is_refused() {
    let error = error(
        r#""p_up_weight": {"dtype": 7, "sizes": [{"as_int": 16}"#,
        r#""p_up_weight": {"dtype": 7, "sizes": [{"as_int": -16}"#,
    );
    assert_eq!(error.to_string(), "models/model.json: weight `up.weight`: dimension 0: found -16, needed 0 or more");
}

#[test]
fn a_size_that_no_machine_has_is_refused_when_it_is_bound() {
    let graph = graph("tiny-meta.pt2").replacen(
        r#""p_up_weight": {"dtype": 7, "sizes": [{"as_int": 16}"#,
        r#""p_up_weight": {"dtype": 7, "sizes": [{"as_int": 9223372036854775807}"#,
        1,
    );
    let error = bind_error(&graph);
    let message =
        "tensor 1, weight `up.weight`: float32 [9223372036854775807, 8] takes more than 1125899906842624 bytes";
    assert_eq!(error.to_string(), message);
    let hint = "no choice of sizes fixes this: the file may be damaged or edited; \
                export the model again with torch.export.save";
    assert_eq!(error.hint().unwrap(), hint);
}

fn bind_error(graph: &str) -> BindError {
    let model = read_bytes(&archive(graph)).unwrap();
    bind(&model, 0, &Sizes::example(&model).unwrap()).map(|_| ()).unwrap_err()
}

/// The graph of `tiny-meta.pt2` with other sizes or strides of the tensor `layer_norm`.
fn with_field(field: &str, number: &str) -> String {
    let graph = graph("tiny-meta.pt2");
    let begin = graph.find(r#""layer_norm": {"dtype""#).unwrap();
    let at = begin + graph[begin..].find(&format!("\"{field}\": [")).unwrap() + field.len() + 5;
    let end = at + graph[at..].find(']').unwrap();
    format!("{}{number}, {number}, {number}{}", &graph[..at], &graph[end..])
}

#[test]
fn a_result_that_no_machine_holds_is_named_with_its_operator_module_and_line() {
    let error = bind_error(&with_field("sizes", r#"{"as_int": 4611686018427387904}"#));
    let (place, field) = (", result of `aten.layer_norm.default` in `norm` (", "): float32 [4611686018427387904, ");
    assert!(error.to_string().contains(place) && error.to_string().contains(field), "{error}");
    assert!(error.hint().unwrap().contains("edited"), "{error:?}");
    let error = bind_error(&with_field("strides", r#"{"as_int": 4611686018427387904}"#));
    let field = "): strides [4611686018427387904, 4611686018427387904, 4611686018427387904] spread float32 [";
    assert!(error.to_string().contains(place) && error.to_string().contains(field), "{error}");
    assert!(error.hint().unwrap().contains("edited"), "{error:?}");
    let zero = r#"{"as_expr": {"expr_str": "Mod(Symbol('s27', positive=True, integer=True), Integer(0))"}}"#;
    let error = bind_error(&with_field("sizes", zero));
    assert!(error.to_string().contains("): dimension 0: `s27-0*(s27//0)` divides by zero with s27 = 6"), "{error}");
    assert!(error.hint().unwrap().contains("edited"), "{error:?}");
}

#[test]
fn a_weight_with_a_size_that_may_change_is_named_with_its_dimension() {
    let error = error(
        r#""p_up_weight": {"dtype": 7, "sizes": [{"as_int": 16}"#,
        r#""p_up_weight": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s27')"}}"#,
    );
    let message = "models/model.json: weight `up.weight`: dimension 0: size `s27`: a weight's size must be a number";
    assert_eq!(error.to_string(), message);
}

#[test]
fn an_expression_that_is_not_known_is_shown() {
    let graph = graph("tiny-meta.pt2");
    let at = graph.find("Symbol('").unwrap();
    let name: String = graph[at + 8..].chars().take_while(|it| *it != '\'').collect();
    let old = format!("Symbol('{name}', positive=True, integer=True)");
    let changed = graph.replacen(&old, "Zeta(Integer(2))", 1);
    let error = read_bytes(&archive(&changed)).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("models/model.json: ")
            && error.contains("size `Zeta(Integer(2))`: `Zeta` with 1 arguments is not known"),
        "{error}"
    );
}

#[test]
fn a_dtype_that_is_not_known_is_named() {
    let error = error(r#""layer_norm": {"dtype": 7"#, r#""layer_norm": {"dtype": 77"#).to_string();
    assert!(error.contains("tensor_values[`layer_norm`].dtype: found the dtype `number 77`"), "{error}");
}

#[test]
fn another_version_is_refused_whatever_else_differs() {
    let error = error(r#""schema_version": {"major": 8"#, r#""schema_version": {"major": 9"#);
    let text = "models/model.json: schema_version: found 9; this vramfit reads 8, which torch 2.8 to 2.15 write";
    assert_eq!(error.to_string(), text);
    assert_eq!(error.hint(), Some("export the model with torch 2.8 to 2.15, or update vramfit"));
}

#[test]
fn json_that_is_none_says_where() {
    let graph = graph("tiny-meta.pt2");
    let cut = read_bytes(&archive(&graph[..graph.len() / 2])).map(|_| ()).unwrap_err().to_string();
    assert!(cut.starts_with("models/model.json: ") && cut.contains("the JSON ends here"), "{cut}");
    for (text, message) in [
        ("[]", "models/model.json: top level: found a list, needed an exported program"),
        ("{}", "models/model.json: top level: the key `graph_module` is missing"),
    ] {
        assert_eq!(read_bytes(&archive(text)).map(|_| ()).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_cut_graph_is_refused_and_a_changed_byte_gives_a_model_or_an_error() {
    let graph = graph("tiny-meta.pt2");
    for at in (0..graph.len()).step_by(611) {
        assert!(read_bytes(&archive(&graph[..at])).is_err(), "{at}");
        let mut changed = graph.clone().into_bytes();
        changed[at] = b'7';
        if let Ok(text) = String::from_utf8(changed)
            && let Ok(model) = read_bytes(&archive(&text))
        {
            let bound = Sizes::example(&model).map(|sizes| bind(&model, 0, &sizes).map(|bound| bound.steps.len()));
            match bound {
                Ok(Ok(steps)) => assert_eq!(steps, model.steps[model.variants[0].steps].len(), "{at}"),
                Ok(Err(error)) => assert!(!error.to_string().is_empty(), "{at}"),
                Err(error) => assert!(!error.to_string().is_empty(), "{at}"),
            }
        }
    }
}
