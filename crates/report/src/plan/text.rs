//! The plan for a terminal or a log file: 80 columns, and nothing that needs colour.

mod complete;

use anstyle::{AnsiColor, Style};
use vramfit_plan::search::{Group, Plan, Shortfall, SufficientGpu};
use vramfit_training::answer::{CapacityKind, TopPeaks};

use super::{PlanReport, times, title, verdict};
use crate::estimate::{Breakdown, led, wrapped};
use crate::ranks::AllRanks;
use crate::size::human;

impl PlanReport<'_, '_> {
    /// The report for a terminal: the verdict and the recommended plan; with `is_complete` every plan, the code and every
    /// trick.
    pub fn text(&self, is_complete: bool) -> String {
        let mut text = self.verdict_text();
        text += &match is_complete {
            true => self.complete_text(),
            false => self.recommended_text(),
        };
        if self.outcome.is_cut_short {
            text += match self.fits() {
                true => "\nstopped early: this is the best that was found until then\n",
                false => "\nstopped early: nothing that fits was found until then, which says nothing of the rest\n",
            };
        }
        text
    }

    fn verdict_text(&self) -> String {
        let bold = Style::new().bold();
        let outcome = self.outcome;
        let (style, verdict) = verdict(&outcome.fit, self.bench.margin());
        let takes = match outcome.fit.kind {
            CapacityKind::Gpu if outcome.answer.expected.libraries.communicators > 0 => {
                format!("it would take {} on the device, the most with all that NCCL may take", self.start_takes())
            }
            CapacityKind::Gpu => format!("it would take {} on the device", self.start_takes()),
            CapacityKind::Reserved => format!("it would reserve {}", self.start_takes()),
        };
        let tight = self.too_tight().map_or_else(String::new, |tight| format!(", {tight}"));
        let line = format!(" {}; {takes}{tight}", self.target());
        let summary = self.summary().map_or_else(String::new, |summary| format!(": {summary}"));
        let mut text = led(bold, self.model, &summary) + &led(style, verdict, &line);
        if let Some(found) = outcome.max_batch {
            let more = if found.is_final { "" } else { " or more" };
            let each = if outcome.start.training.parallel.batches() > 1 { " on each GPU" } else { "" };
            text += &format!("largest batch with these settings: {}{more}{each}\n", found.batch);
        }
        text
    }

    fn recommended_text(&self) -> String {
        let bold = Style::new().bold();
        let Some(plan) = self.outcome.plans().next() else {
            return self.nothing_text() + &wrapped("--all prints what each trick does alone.", 0);
        };
        let new = AnsiColor::Green.on_default();
        let mut text = format!("\n{bold}Recommended: {}{bold:#}\n", title(plan.risk).to_lowercase());
        if plan.changes.is_empty() {
            text += "  nothing needs to change\n";
        }
        for change in &plan.changes {
            text += &coloured(new, &wrapped(&format!("+ {}", change.after), 2));
        }
        text += &wrapped(&format!("= {}", self.figures(plan)), 2);
        for warning in plan.changes.iter().filter_map(|change| change.warning.as_ref()) {
            text += &wrapped(&format!("note: {warning}"), 2);
        }
        let shown = |group: &Group| match self.has_single_changes(group) {
            true => group.best.iter().chain(&group.others).map(short).collect(),
            false => group.best.iter().map(short).collect::<Vec<_>>(),
        };
        let mut others: Vec<String> = Vec::new();
        for group in &self.outcome.groups {
            let is_recommended = group.best.as_ref().is_some_and(|best| std::ptr::eq(best, plan));
            others.extend(shown(group).into_iter().skip(usize::from(is_recommended)));
        }
        if !others.is_empty() && !plan.changes.is_empty() {
            text += &wrapped(&format!("or {}", others.join("; or ")), 2);
        }
        let code = if plan.changes.is_empty() { "" } else { "the code, " };
        text + &wrapped(&format!("--all prints {code}every plan and every trick; --html FILE writes a page."), 0)
    }

    /// `peak 9.50 GiB reserved, 9.90 GiB on the device, at least 880 MiB free, time ×1.35`: peaks are the expected ones, and that much
    /// every simulation leaves free.
    fn figures(&self, plan: &Plan) -> String {
        let rough = if self.bench.has_measured_times() { "" } else { " (times are rough)" };
        let all = AllRanks::of(self.bench, plan).map_or_else(String::new, |all| all.words());
        format!(
            "peak {} reserved, {} on the device, at least {} free, time {}{rough}{all}{}",
            human(plan.run.peak_reserved),
            human(plan.device_used),
            human(plan.free),
            times(plan.slowdown),
            self.largest_batch(plan)
        )
    }

    /// `; largest batch: 3 on each GPU, 12 in a step of all of them`, of the recommended plan over several GPUs.
    fn largest_batch(&self, plan: &Plan) -> String {
        let is_recommended = self.outcome.plans().next().is_some_and(|first| std::ptr::eq(first, plan));
        let Some(found) = self.outcome.max_batch_of_plan.filter(|_| is_recommended) else { return String::new() };
        let training = &plan.setup.training;
        let (batches, micro_batches) = (training.parallel.batches(), training.accumulate.max(1));
        let all = found.batch * i64::from(batches) * i64::from(micro_batches);
        let more = if found.is_final { "" } else { " or more" };
        let each = if batches > 1 { " on each GPU" } else { "" };
        let micro = if micro_batches > 1 { " in a micro-batch" } else { "" };
        let altogether = if all > found.batch { format!(", {all} in a step of all of them") } else { String::new() };
        format!("; largest batch: {}{more}{each}{micro}{altogether}", found.batch)
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
        if let Some(peaks) = TopPeaks::of(&nothing.leanest.run) {
            let parts = Breakdown::from(peaks.first.peak.account).by_category();
            let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
            let parts: Vec<String> =
                parts.map(|(category, bytes)| format!("{} {}", category.name(), human(bytes))).collect();
            text += &wrapped(&format!("its floor: {}", parts.join(", ")), 2);
        }
        text + &sufficient_gpus(nothing).iter().map(|line| wrapped(line, 2)).collect::<String>()
    }
}

/// The smallest GPU that would do, and the smallest without any change, unless it is the same.
pub(super) fn sufficient_gpus(nothing: &Shortfall) -> Vec<String> {
    let described = |gpu: &SufficientGpu| format!("{} ({})", gpu.name, human(gpu.capacity));
    let Some((smallest, is_unchanged)) = nothing.smallest_gpu() else {
        return vec!["no GPU of the catalogue would do".to_owned()];
    };
    let smallest = format!("the smallest GPU that would do: {}", described(smallest));
    if is_unchanged {
        return vec![format!("{smallest}, without any change")];
    }
    let unchanged = nothing.gpu_for_start.as_ref().map_or_else(|| "none in the catalogue".to_owned(), described);
    vec![smallest, format!("without any change: {unchanged}")]
}

/// A plan in few words: `autocast bf16 and 2 more changes, time ×0.80`.
fn short(plan: &Plan) -> String {
    let own = plan.changes.iter().filter(|change| change.risk == plan.risk).map(|change| change.after.as_str());
    let own = own.collect::<Vec<_>>().join(", ");
    let others = plan.changes.iter().filter(|change| change.risk != plan.risk).count();
    let others = match others {
        0 => String::new(),
        1 => " and one more change".to_owned(),
        count => format!(" and {count} more changes"),
    };
    format!("{own}{others}, time {}", times(plan.slowdown))
}

/// Text in a colour, line by line.
fn coloured(style: Style, text: &str) -> String {
    text.lines().map(|line| format!("{style}{line}{style:#}\n")).collect()
}
