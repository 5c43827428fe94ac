//! The plan for a terminal or a log file: 80 columns, and nothing that needs colour.

use anstyle::{AnsiColor, Style};
use vramfit_plan::TrainingEffect;
use vramfit_plan::search::{Group, Plan, TrickRow};
use vramfit_training::answer::{TopPeaks, Verdict};

use super::plot::plot;
use super::{PlanReport, saved, times, title};
use crate::estimate::{Breakdown, led, wrapped};
use crate::size::human;

impl PlanReport<'_, '_> {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        let mut text = self.verdict_text();
        for group in &self.outcome.groups {
            text += &self.group_text(group);
        }
        text += &self.nothing_text();
        if let Some(plan) = self.outcome.plans().next() {
            text += &self.code_text(plan);
        }
        text += &self.tricks_text();
        if self.outcome.is_cut_short {
            text += match self.fits() {
                true => "\nstopped early: this is the best that was found until then\n",
                false => "\nstopped early: nothing that fits was found until then, which says nothing of the rest\n",
            };
        }
        if let Some(unbound) = self.unbound() {
            text += &format!("\n{}", wrapped(&unbound, 0));
        }
        for note in &self.notes {
            text += &format!("\n{}", wrapped(&format!("note: {note}"), 0));
        }
        text
    }

    fn verdict_text(&self) -> String {
        let bold = Style::new().bold();
        let outcome = self.outcome;
        let (style, verdict) = match outcome.fit.verdict {
            Verdict::Fits => (AnsiColor::Green.on_default().bold(), "fits as it is"),
            Verdict::TooClose => (AnsiColor::Red.on_default().bold(), "too close to tell"),
            Verdict::DoesNotFit => (AnsiColor::Red.on_default().bold(), "does not fit"),
        };
        let line = format!("{}; it would take {}", self.target(), human(outcome.needed));
        let mut text = format!("{bold}{}{bold:#}\n{}", self.model, led(style, verdict, &format!(" {line}")));
        if let Some(found) = outcome.max_batch {
            let more = if found.is_final { "" } else { " or more" };
            text += &format!("largest batch with these settings: {}{more}\n", found.batch);
        }
        text
    }

    fn group_text(&self, group: &Group) -> String {
        let bold = Style::new().bold();
        let mut text = format!("\n{bold}{}{bold:#}\n", title(group.effect));
        let Some(best) = &group.best else {
            return text + &format!("  {}\n", self.no_plan(group));
        };
        text += &self.plan_text(best);
        if !group.others.is_empty() {
            text += "  less memory for more time:\n";
            for plan in &group.others {
                let changes: Vec<&str> = plan.changes.iter().map(|change| change.after.as_str()).collect();
                let line = format!("{} {}: {}", human(plan.taken), times(plan.slowdown), changes.join("; "));
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
        let bold = Style::new().bold();
        text += &format!(
            "  {bold}= {}{bold:#} at the peak, {} on the device, time {}\n",
            human(plan.run.peak_reserved),
            human(plan.device_used),
            times(plan.slowdown)
        );
        if let Some(bound) = self.bench.bind(&plan.setup) {
            text += &wrapped(&self.why(&bound, &plan.run), 4);
        }
        text
    }

    fn nothing_text(&self) -> String {
        let Some(nothing) = self.nothing() else { return String::new() };
        let bad = AnsiColor::Red.on_default().bold();
        let mut text = format!(
            "\n{bad}Nothing fits{bad:#}: {} are missing for what needs the least, {}\n",
            human(nothing.missing),
            human(nothing.leanest.taken)
        );
        text += &match nothing.changes.join("; ") {
            changes if changes.is_empty() => "  that is without any change\n".to_owned(),
            changes => wrapped(&format!("that is with: {changes}"), 2),
        };
        text += "  its floor:\n";
        if let Some(peaks) = TopPeaks::of(&nothing.leanest.run) {
            for (category, bytes) in Breakdown::from(peaks.first.peak.account).by_category() {
                if bytes > 0 {
                    text += &format!("    {:12}{:>10}\n", category.name(), human(bytes));
                }
            }
        }
        let gpu = |gpu: &Option<vramfit_plan::search::SufficientGpu>| match gpu {
            Some(gpu) => format!("{} ({})", gpu.name, human(gpu.capacity)),
            None => "none in the catalogue".to_owned(),
        };
        text += &wrapped(&format!("the smallest GPU that would do: {}", gpu(&nothing.gpu)), 2);
        text + &wrapped(&format!("without any change: {}", gpu(&nothing.gpu_for_start)), 2)
    }

    fn code_text(&self, plan: &Plan) -> String {
        let bold = Style::new().bold();
        // Not indented, so that it can be pasted as it is.
        format!("\n{bold}The code of the first plan{bold:#}\n\n{}", plan.written.code)
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
    let effect = match row.effect {
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

/// Text in a colour, line by line.
fn coloured(style: Style, text: &str) -> String {
    text.lines().map(|line| format!("{style}{line}{style:#}\n")).collect()
}
