//! `--all`: every plan of every group, the code of the first, and each trick alone.

use anstyle::{AnsiColor, Style};
use vramfit_plan::TrainingEffect;
use vramfit_plan::search::{Group, Plan, TrickRow};

use super::super::plot::plot;
use super::super::{PlanReport, saved, times, title};
use super::coloured;
use crate::estimate::wrapped;
use crate::ranks::AllRanks;
use crate::size::human;

impl PlanReport<'_, '_> {
    pub(super) fn complete_text(&self) -> String {
        let mut text = String::new();
        for group in &self.outcome.groups {
            text += &self.group_text(group);
        }
        text += &self.nothing_text();
        if let Some(plan) = self.outcome.plans().next() {
            text += &self.code_text(plan);
        }
        text += &self.tricks_text();
        if let Some(unbound) = self.unbound() {
            text += &format!("\n{}", wrapped(&unbound, 0));
        }
        for note in &self.notes {
            text += &format!("\n{}", wrapped(&format!("note: {note}"), 0));
        }
        text
    }

    fn group_text(&self, group: &Group) -> String {
        let bold = Style::new().bold();
        let mut text = format!("\n{bold}{}{bold:#}\n", title(group.risk));
        let Some(best) = &group.best else {
            return text + &format!("  {}\n", self.no_plan(group));
        };
        text += &self.plan_text(best);
        if !group.others.is_empty() {
            text += &format!("  {}:\n", self.others(group).to_lowercase());
            for plan in &group.others {
                let changes: Vec<&str> = plan.changes.iter().map(|change| change.after.as_str()).collect();
                let line = format!("{} {}: {}", self.plan_takes(plan), times(plan.slowdown), changes.join("; "));
                text += &wrapped(&line, 4);
                for warning in plan.changes.iter().filter_map(|change| change.warning.as_ref()) {
                    text += &wrapped(&format!("note: {warning}"), 6);
                }
            }
        }
        text + &plot(&group.frontier, Some(self.outcome.fit.capacity.low))
    }

    fn plan_text(&self, plan: &Plan) -> String {
        let (gone, new) = (AnsiColor::Red.on_default(), AnsiColor::Green.on_default());
        let mut text = String::new();
        if plan.changes.is_empty() {
            text += "  nothing needs to change\n";
        }
        for change in &plan.changes {
            text += &coloured(gone, &wrapped(&format!("- {}", change.before), 2));
            text += &coloured(new, &wrapped(&format!("+ {}", change.after), 2));
            text += &format!("      {}, time {}\n", saved(change.saving), times(change.slowdown));
            if let Some(warning) = &change.warning {
                text += &wrapped(&format!("note: {warning}"), 6);
            }
        }
        text += &wrapped(&format!("= {}", self.figures(plan)), 2);
        if let Some(bound) = self.bench.bind(&plan.setup) {
            text += &wrapped(&self.why(&bound, &plan.run), 4);
        }
        text + &AllRanks::of(self.bench, plan).map_or_else(String::new, AllRanks::table)
    }

    fn code_text(&self, plan: &Plan) -> String {
        let bold = Style::new().bold();
        // Not indented, so that it can be pasted as it is.
        let code = format!("\n{bold}The code of the first plan{bold:#}\n\n{}", plan.written.code);
        let accelerate = plan.written.accelerate.as_ref();
        let files = [
            ("The same for accelerate launch --config_file", accelerate.and_then(|file| file.as_ref().ok())),
            ("The file ds_config.json of DeepSpeed", plan.written.deepspeed.as_ref()),
        ];
        let files = files.into_iter().filter_map(|(what, text)| Some((what, text?)));
        let text = files.fold(code, |code, (what, text)| format!("{code}\n{bold}{what}{bold:#}\n\n{text}"));
        match accelerate {
            Some(Err(reason)) => text + "\n" + &wrapped(&format!("no Accelerate file: {reason}"), 0),
            _ => text,
        }
    }

    fn tricks_text(&self) -> String {
        let bold = Style::new().bold();
        let mut text = format!("\n{bold}Each trick alone{bold:#}\n");
        for row in &self.outcome.tricks {
            text += &row_text(row);
        }
        text
    }
}

fn row_text(row: &TrickRow) -> String {
    let effect = match row.risk.effect() {
        TrainingEffect::None => String::new(),
        effect => format!(" (effect: {})", effect.name()),
    };
    let mut text = format!("  {}{effect}\n", row.name);
    if let Some(reason) = &row.reason {
        text += &wrapped(reason, 4);
    }
    for shown in &row.options {
        text += &wrapped(&format!("{}: {}, time {}", shown.what, saved(shown.saving), times(shown.slowdown)), 4);
        if let Some(warning) = &shown.warning {
            text += &wrapped(&format!("note: {warning}"), 6);
        }
    }
    for finding in &row.findings {
        let bytes = finding.bytes.map_or_else(String::new, |bytes| format!(": {}", human(bytes.unsigned_abs())));
        text += &wrapped(&format!("{}{bytes}", finding.what), 4);
    }
    if !row.conflicts.is_empty() {
        text += &wrapped(&format!("conflicts: {}", row.conflicts), 4);
    }
    text + &wrapped(&format!("code: {}", row.code), 4)
}
