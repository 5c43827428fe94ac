//! Who holds what at the peak: the treemap, and the largest in a table.

use super::super::Holder;
use crate::page::escape;
use crate::page::parts::{Column, head, number};
use crate::page::treemap::{Leaf, treemap};
use crate::size::{grouped, human};

/// How many holders are listed.
const LISTED: usize = 40;
/// Who holds what belongs to no module.
const WHOLE: &str = "the model";

/// Both.
pub fn holders(holders: &[Holder]) -> String {
    let leaves: Vec<Leaf<'_>> = holders
        .iter()
        .map(|holder| {
            let owner = holder.module.as_deref().unwrap_or(WHOLE);
            Leaf {
                kind: holder.category.name(),
                color: holder.category.index() + 1,
                owner,
                block: block(owner),
                bytes: holder.bytes,
            }
        })
        .collect();
    let rows: String = holders.iter().take(LISTED).map(row).collect();
    let head =
        head(&[Column::Text("module, line"), Column::Text("for"), Column::Number("held"), Column::Number("blocks")]);
    let caption = match holders.len() {
        all if all > LISTED => format!("<caption>the {LISTED} largest of {}</caption>", grouped(all as u64)),
        _ => String::new(),
    };
    format!(
        "{}<div class=\"scroll\"><table class=\"sortable holders\">{caption}{head}<tbody>{rows}</tbody></table></div>",
        treemap(&leaves)
    )
}

fn row(holder: &Holder) -> String {
    let owner = holder.module.as_deref().unwrap_or(WHOLE);
    let line = holder.source.as_deref().map_or_else(String::new, |source| {
        let op = holder.op.as_deref().unwrap_or("").trim_start_matches("aten.").trim_end_matches(".default");
        format!("<small>{op}, {}</small>", escape(source.trim_start_matches("site-packages/")))
    });
    format!(
        "<tr><th scope=\"row\" data-value=\"{0}\">{0}{line}</th><td>{1}</td>{2}{3}</tr>",
        escape(owner),
        holder.category.name(),
        number(holder.bytes, &human(holder.bytes)),
        number(holder.blocks, &grouped(holder.blocks.into()))
    )
}

/// The repeated block that a module is in: its path up to the first number. Elsewhere the first two names.
fn block(module: &str) -> &str {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_digit());
    let names = module.split('.').position(is_number).map_or(2, |number| number + 1);
    let end = module.match_indices('.').nth(names - 1).map_or(module.len(), |(at, _)| at);
    &module[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_belong_to_their_repeated_block() {
        assert_eq!(block("bert.encoder.layer.11.attention.self.query"), "bert.encoder.layer.11");
        assert_eq!(block("layer1.0.conv1"), "layer1.0");
        assert_eq!(block("bert.embeddings.word_embeddings"), "bert.embeddings");
        assert_eq!(block("classifier"), "classifier");
        assert_eq!(block("the model"), "the model");
        assert_eq!(block("features.28"), "features.28");
    }

    #[test]
    fn a_module_called_like_a_tag_stays_text() {
        let holder = Holder {
            bytes: 1 << 20,
            blocks: 1,
            category: crate::names::CategoryName::Activations,
            module: Some("a.<script>alert(1)</script>".into()),
            op: Some("aten.relu.default".into()),
            source: Some("<b>.py:3 in f".into()),
        };
        let html = holders(&[holder]);
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
    }
}
