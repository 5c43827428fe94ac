//! Each trick alone: what it saves and costs on this model, why it does not apply where it does not, how it is written.

use vramfit_plan::search::TrickRow;

use super::super::{saved, times};
use crate::page::escape;
use crate::page::parts::{Column, head, number};
use crate::size::human;

/// A row an option, to be sorted; then what each trick is in code.
pub fn tricks(rows: &[TrickRow]) -> String {
    let head = head(&[
        Column::Text("trick"),
        Column::Text("what it does here"),
        Column::Number("memory"),
        Column::Number("time"),
        Column::Text("effect"),
    ]);
    let body: String = rows.iter().map(options).collect();
    let written: String = rows
        .iter()
        .map(|row| {
            let conflicts = match row.conflicts {
                "" => String::new(),
                text => format!("<p class=\"help\">Does not go together with: {}</p>", escape(text)),
            };
            format!("<dt>{}</dt><dd><code>{}</code>{conflicts}</dd>", escape(row.name), escape(row.code))
        })
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Each trick alone\"><table class=\"sortable tricks\">{head}<tbody>{body}</tbody></table></div><details><summary>How each is written, and what it conflicts with</summary><dl class=\"facts written\">{written}</dl></details>"
    )
}

fn options(row: &TrickRow) -> String {
    let line = |what: &str, memory: String, time: String| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{what}</td>{memory}{time}<td>{}</td></tr>",
            escape(row.name),
            row.risk.effect().name()
        )
    };
    let nothing = || "<td class=\"number\" data-value=\"0\">–</td>".to_owned();
    let mut html = String::new();
    if let Some(reason) = &row.reason {
        html += &line(&format!("<small>{}</small>", escape(reason)), nothing(), nothing());
    }
    for shown in &row.options {
        let warning = shown.warning.as_ref();
        let warning = warning.map_or_else(String::new, |text| format!("<br><small>note: {}</small>", escape(text)));
        html += &line(
            &(escape(&shown.what) + &warning),
            number(shown.saving, &saved(shown.saving)),
            number(shown.slowdown, &times(shown.slowdown)),
        );
    }
    for finding in &row.findings {
        let memory = finding.bytes.map_or_else(nothing, |bytes| number(bytes, &human(bytes.unsigned_abs())));
        html += &line(&escape(&finding.what), memory, nothing());
    }
    html
}

#[cfg(test)]
mod tests {
    use vramfit_plan::Risk;
    use vramfit_plan::search::TrickOption;

    use super::*;

    #[test]
    fn every_option_is_a_row_and_stays_text() {
        let shown = |what: &str, saving| TrickOption {
            what: what.to_owned(),
            saving,
            saving_allocated: saving,
            slowdown: 1.25,
            warning: None,
        };
        let row = TrickRow {
            name: "smaller batch",
            risk: Risk::SmallerTraining,
            reason: None,
            options: vec![shown("<i>batch</i> 8", 3 << 20), shown("batch 4", -512)],
            findings: Vec::new(),
            conflicts: "",
            code: "x < y",
        };
        let html = tricks(&[row]);
        assert_eq!(html.matches("<tr><th scope=\"row\">").count(), 2);
        assert!(html.contains("data-value=\"3145728\">saves 3.00 MiB"), "{html}");
        assert!(html.contains("data-value=\"-512\">takes 512 B more"), "{html}");
        assert!(!html.contains("<i>") && html.contains("x &lt; y"), "{html}");
    }
}
