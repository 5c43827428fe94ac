//! The modules as a table.

use vramfit_step::layers::Layer;

use crate::explain::html::escape;
use crate::layers::{count, shape_text};
use crate::size::human;

/// All modules, indented by depth.
pub fn table(layers: &[Layer]) -> String {
    let head = ["module", "output", "weights", "output bytes", "saved for backward", "forward FLOPs", "backward FLOPs"];
    let head: String = head.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let rows: String = layers.iter().map(row).collect();
    format!("<table class=\"layers\"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
}

fn row(layer: &Layer) -> String {
    let name = layer.path.rsplit('.').next().filter(|name| !name.is_empty()).unwrap_or("the model");
    let times = if layer.calls > 1 { format!(" ×{}", layer.calls) } else { String::new() };
    let shape = layer.outputs.first().map_or_else(|| "-".to_owned(), |shape| shape_text(shape));
    let fields = [
        shape,
        count(layer.parameters),
        human(layer.output_bytes),
        human(layer.saved_bytes),
        count(layer.flops.forward),
        count(layer.flops.backward),
    ];
    let fields: String = fields.iter().map(|field| format!("<td>{}</td>", escape(field))).collect();
    format!(
        "<tr><td style=\"padding-left:{}px\" title=\"{}\">{}{times} <small>{}</small></td>{fields}</tr>",
        8 + 14 * layer.depth,
        escape(&layer.path),
        escape(name),
        escape(&layer.class),
    )
}
