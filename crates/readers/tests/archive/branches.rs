//! Branches that depend on data.

use vramfit_graph::model::Step;
use vramfit_readers::read_bytes;

use super::small::{archive, graph, model};

#[test]
fn the_branch_that_makes_most_is_taken() {
    let model = model("branches.pt2");
    for variant in &model.variants {
        let names = model.steps[variant.steps].iter().filter_map(|step| match step {
            Step::Call(call) => Some(model.operators[call.operator as usize].name.as_str()),
            _ => None,
        });
        let names: Vec<&str> = names.filter(|name| !name.starts_with("aten.to.")).collect();
        assert_eq!(names, ["aten.sum.default", "aten.gt.Scalar", "aten.relu.default", "aten.linear.default"]);
        assert!(variant.causes.iter().any(|cause| cause.contains("torch.cond")), "{:?}", variant.causes);
    }
}

#[test]
fn a_branch_that_is_given_too_little_is_named() {
    let graph = graph("branches.pt2");
    let at = graph.find(r#""as_tensors": [{"name": ""#).unwrap() + r#""as_tensors": ["#.len();
    let end = at + graph[at..].find(", ").unwrap() + 2;
    let changed = format!("{}{}", &graph[..at], &graph[end..]);
    let error = read_bytes(&archive(&changed)).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "models/model.json: node `cond`: found 2 arguments for a graph that takes 3");
}
