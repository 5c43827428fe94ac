//! The modules as a table that can be sorted.

use vramfit_training::layers::Layer;

use crate::layers::{count, shape_text};
use crate::page::escape;
use crate::page::parts::{Column, head, number};
use crate::size::human;

/// All modules, indented by depth; sorted, with their whole paths.
pub fn table(layers: &[Layer]) -> String {
    let head = head(&[
        Column::Text("module"),
        Column::Fixed("output"),
        Column::Number("weights"),
        Column::Number("output bytes"),
        Column::Number("saved for backward"),
        Column::Number("forward FLOPs"),
        Column::Number("backward FLOPs"),
    ]);
    let rows: String = layers.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Modules\"><table class=\"sortable layers\">{head}<tbody>{rows}</tbody></table></div><p class=\"help\">A click on a column sorts by it; a third one brings back the order in which modules run. A module's numbers hold those of the modules in it.</p>"
    )
}

fn row(layer: &Layer) -> String {
    let path = if layer.path.is_empty() { "the model" } else { &layer.path };
    let name = path.rsplit('.').next().unwrap_or(path);
    let times = if layer.calls > 1 { format!(" ×{}", layer.calls) } else { String::new() };
    let shape = layer.outputs.first().map_or_else(|| "-".to_owned(), |shape| shape_text(shape));
    format!(
        "<tr><th scope=\"row\" style=\"padding-left:{}px\" data-value=\"{path}\"><span class=\"leaf\">{name}</span><span class=\"path\">{path}</span>{times} <small>{}</small></th><td>{}</td>{}{}{}{}{}</tr>",
        8 + 14 * layer.depth,
        escape(&layer.class),
        escape(&shape),
        number(layer.parameters, &count(layer.parameters)),
        number(layer.output_bytes, &human(layer.output_bytes)),
        number(layer.saved_bytes, &human(layer.saved_bytes)),
        number(layer.flops.forward, &count(layer.flops.forward)),
        number(layer.flops.backward, &count(layer.flops.backward)),
        path = escape(path),
        name = escape(name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_called_like_a_tag_stays_text() {
        let layer = Layer { path: "a.\"><script>x</script>".into(), class: "<b>".into(), ..Layer::default() };
        let html = table(&[layer]);
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
    }

    #[test]
    fn numbers_are_sorted_by_their_value_and_not_by_their_words() {
        let layer = Layer { path: "a".into(), saved_bytes: 3 << 20, ..Layer::default() };
        assert!(table(&[layer]).contains("data-value=\"3145728\">3.00 MiB<"));
    }
}
