//! The estimate for a terminal or a log file: 80 columns, and nothing that needs colour.

use anstyle::{AnsiColor, Style};

use vramfit_eager::forward::SCRATCH;

use super::fit::FitReport;
use super::{EstimateReport, RangeReport};
use crate::names::{PhaseName, VerdictName};
use crate::ranks::AllRanks;
use crate::size::{grouped, human, number};

/// Characters of a bar for everything on the device.
const BAR: usize = 30;
/// How many holders are shown.
const HOLDERS: usize = 10;
/// Columns of a line.
const WIDTH: usize = 80;
/// Lines of a screen, the last line of the report and the prompt aside.
const SCREEN: usize = 22;
/// A smaller share of what is on the device has no row of its own.
const SMALL: f64 = 0.01;
/// So many rows of what the peak consists of are always shown.
const FEWEST_ROWS: usize = 6;

impl<S> EstimateReport<S> {
    /// The report for a terminal. Without the details it takes one screen: parts of the peak that have no room there share a row,
    /// and notes are counted. Those on a flag, such as which GPU its name was taken for, are always shown.
    pub fn text(&self, has_details: bool) -> String {
        let (own, others): (Vec<&String>, Vec<&String>) = self.notes.iter().partition(|note| note.starts_with("--"));
        let written = |note: &&String| format!("\n{}", wrapped(&format!("note: {note}"), 0));
        let own: String = own.iter().map(written).collect();
        let mut text = self.head_text();
        text += &self.verdict_text(has_details);
        text += &self.numbers_text();
        let unmodelled = self.unmodelled_text();
        let room = SCREEN.saturating_sub(2 + lines(&text) + lines(&unmodelled) + lines(&own));
        text += &self.breakdown_text((!has_details).then_some(room));
        if has_details {
            text += &self.phases_text();
            text += &self.holders_text();
            text += &self.second_peak_text();
        }
        text += &unmodelled;
        text += &own;
        let mut hidden = 0;
        for note in others.iter().map(written) {
            match has_details || lines(&text) + lines(&note) < SCREEN {
                true => text += &note,
                false => hidden += 1,
            }
        }
        if !has_details {
            let more = match hidden {
                0 => String::new(),
                1 => ", and a note".to_owned(),
                count => format!(", and {count} notes"),
            };
            text += &format!("\n--verbose shows the phases and the largest holders{more}\n");
        }
        text
    }

    /// The model and the settings that decide most.
    fn head_text(&self) -> String {
        let style = Style::new().bold();
        led(style, &self.model, &format!(": {} parameters; {}", grouped(self.parameters), self.summary)) + "\n"
    }

    fn unmodelled_text(&self) -> String {
        if self.unmodelled.is_empty() {
            return String::new();
        }
        let bad = AnsiColor::Red.on_default().bold();
        let mut text = format!("\n{bad}not modelled{bad:#}\n");
        for operator in &self.unmodelled {
            let modules = self.unmodelled_in.get(&operator.name).map_or(&[][..], Vec::as_slice);
            let shown = modules.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let more = if modules.len() > 3 { ", …" } else { "" };
            let place = if shown.is_empty() { String::new() } else { format!(" in {shown}{more}") };
            text += &wrapped(&format!("{operator}{place}"), 2);
        }
        let bound = format!(
            "the ranges take them to need from their results alone up to {SCRATCH} bytes for each element that they read \
             or write (docs/ranges.md)"
        );
        text + &wrapped(&bound, 2)
    }

    fn verdict_text(&self, has_details: bool) -> String {
        let Some(fit) = &self.fit else { return String::new() };
        let (style, verdict) = match fit.verdict {
            VerdictName::Fits => (AnsiColor::Green.on_default().bold(), "fits"),
            VerdictName::TooClose => (AnsiColor::Red.on_default().bold(), "too close"),
            VerdictName::DoesNotFit => (AnsiColor::Red.on_default().bold(), "does not fit"),
        };
        let mut text = match fit.misfit() {
            None if fit.verdict == VerdictName::TooClose => {
                let text = led(style, verdict, &format!(" {}", fit.target()));
                text + &wrapped(&self.why_too_close(fit), 2) + &format!("  try `{}`\n", self.plan_command)
            }
            None => led(style, verdict, &format!(" {}{}", fit.target(), fit.left())),
            Some(misfit) => {
                let text = led(style, verdict, &format!("{}: {misfit}", fit.on_gpu()));
                text + &format!("  try `{}`\n", self.plan_command)
            }
        };
        if let Some(message) = fit.message.as_ref().filter(|_| has_details) {
            text += &wrapped(message, 2);
        }
        text + "\n"
    }

    /// Why the expected run fits, but not everything that may be.
    fn why_too_close(&self, fit: &FitReport) -> String {
        match (&fit.dies_in, &self.communication) {
            (Some(death), _) => {
                format!("needs {}, but some simulations do not fit: {}", human(fit.needed), death.words())
            }
            (None, Some(communication)) => {
                let most = human(communication.nccl.high);
                format!("needs {} without NCCL, which may take up to {most}: more than stays free", human(fit.needed))
            }
            (None, None) => format!(
                "needs {}: the size of the CUDA context or of what the GPU leaves free decides",
                human(fit.needed)
            ),
        }
    }

    fn numbers_text(&self) -> String {
        let mut text = peak_text("peak allocated", self.peak_allocated, &self.range, None);
        text += &peak_text("peak reserved", self.peak_reserved, &self.reserved_range, self.range.causes());
        text += &format!(
            "on the device   {:>10}   with {} of CUDA context, {}\n",
            human(self.device_used),
            human(self.context),
            self.context_words()
        );
        if let Some(later) = self.later() {
            text += &format!("{:29}{} in later steps\n", "", human(later));
        }
        text += &self.communication.as_ref().map_or_else(String::new, |communication| communication.nccl.row());
        text += &self.all_ranks.map_or_else(String::new, AllRanks::row);
        let Some(peak) = &self.peak else {
            return text;
        };
        let step = peak.step.map_or_else(String::new, |step| format!("step {}, ", step + 1));
        let place = match (peak.module.as_deref(), peak.op.as_deref()) {
            (Some(module), Some(op)) => format!("{module} ({op})"),
            (only, None) | (None, only) => only.unwrap_or("").to_owned(),
        };
        let mut line = format!("the peak is in  {step}{}", peak.phase.name());
        if line.chars().count() + 1 + place.chars().count() > WIDTH {
            line += &format!("\n{:16}{}", "", cut(&place, WIDTH - 16));
        } else {
            line += &format!(" {place}");
        }
        text + line.trim_end() + "\n"
    }

    /// What the peak consists of; where there is room for so many rows only, small parts in one row.
    fn breakdown_text(&self, room: Option<usize>) -> String {
        let mut rows = self.breakdown.by_category().map(|(category, bytes)| (category.name(), bytes)).to_vec();
        rows.push(("rounding", self.breakdown.rounding));
        rows.push(("cached, unused", self.cached()));
        rows.push(("CUDA context", self.context));
        let share = |bytes: u64| bytes as f64 / self.device_used.max(1) as f64;
        let mut sizes: Vec<u64> = rows.iter().map(|(_, bytes)| *bytes).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        // The last row is for the rest.
        let least = room.and_then(|room| sizes.get(room.max(FEWEST_ROWS) - 2)).copied().unwrap_or(0);
        let is_small = |bytes: u64| room.is_some() && (share(bytes) < SMALL || bytes < least);
        let small: u64 = rows.iter().map(|(_, bytes)| *bytes).filter(|bytes| is_small(*bytes)).sum();
        rows.retain(|(_, bytes)| !is_small(*bytes));
        rows.push(("everything else", small));
        let mut text = String::from("\n");
        for (name, bytes) in rows.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let share = share(bytes);
            let bar = "#".repeat((share * BAR as f64).round() as usize);
            text += format!("  {name:16}{:>10} {:5.1} %  {bar}", human(bytes), 100.0 * share).trim_end();
            text.push('\n');
        }
        text
    }

    fn phases_text(&self) -> String {
        let mut text = format!("\n  {:16}{:>12}{:>12}{:>12}\n", "phase", "peak", "at its end", "reserved");
        let has_micro_batches = self.has_micro_batches();
        for phase in &self.phases {
            let step = phase.step.map_or_else(String::new, |step| format!("{} ", step + 1));
            let micro = phase.micro.filter(|_| has_micro_batches);
            let micro = micro.map_or_else(String::new, |micro| format!(" {}", micro + 1));
            let name = format!("{step}{}{micro}", phase.phase.name());
            let [peak, allocated, reserved] = [phase.peak, phase.allocated, phase.reserved].map(human);
            text += &format!("  {name:16}{peak:>12}{allocated:>12}{reserved:>12}\n");
        }
        text
    }

    fn holders_text(&self) -> String {
        if self.holders.is_empty() {
            return String::new();
        }
        let mut text = String::from("\n  largest holders at the peak\n");
        for holder in self.holders.iter().take(HOLDERS) {
            let module = holder.module.as_deref().unwrap_or("the model");
            text +=
                &format!("  {:>10}  {:14}{}\n", human(holder.bytes), holder.category.name(), cut(module, WIDTH - 28));
            let op = holder.op.as_deref().unwrap_or("").trim_start_matches("aten.").trim_end_matches(".default");
            if let Some(source) = &holder.source {
                text += &format!("{:14}{}\n", "", source_text(op, source, WIDTH - 14));
            }
        }
        text
    }

    fn second_peak_text(&self) -> String {
        let Some(second) = &self.second_peak else { return String::new() };
        let line = format!(
            "second peak: {} in {}step {}; cutting the first below it saves no more than {}",
            human(second.allocated),
            match second.phase {
                PhaseName::Step => "the optimizer's ".to_owned(),
                phase => format!("the {} of ", phase.name()),
            },
            second.step.map_or(0, |step| step + 1),
            human(second.saving)
        );
        format!("\n{}", wrapped(&line, 2))
    }
}

/// Lines on a terminal: a command to copy is one line of text and may take two there.
fn lines(text: &str) -> usize {
    text.lines().map(|line| visible(line).div_ceil(WIDTH).max(1)).sum()
}

/// Columns of a line, without the sequences that colour it.
fn visible(line: &str) -> usize {
    let mut pieces = line.split('\u{1b}');
    let plain = pieces.next().map_or(0, |first| first.chars().count());
    plain + pieces.map(|piece| piece.split_once('m').map_or(0, |(_, text)| text.chars().count())).sum::<usize>()
}

/// A peak with its bounds and what makes them differ; a cause that needs a line of its own is not written again there.
fn peak_text(name: &str, bytes: u64, range: &RangeReport, before: Option<String>) -> String {
    let line = format!("{name:16}{:>10}", human(bytes));
    let Some(causes) = range.causes() else { return line + "\n" };
    let (low, high) = (human(range.low), human(range.high));
    let bounds = match low == high {
        true => format!("give or take {},", human(range.high - range.low)),
        false => format!("{} to {high},", number(&low, &high)),
    };
    let indent = line.chars().count() + 3;
    let has_room = |cause: &str| indent + bounds.chars().count() + 1 + cause.chars().count() <= WIDTH;
    let mut cause = format!("by {causes}");
    if !has_room(&cause) && before.is_some_and(|before| before == causes) {
        cause = "by the same".to_owned();
    }
    let in_one = wrapped(&format!("{bounds} {cause}"), indent);
    let apart = wrapped(&bounds, indent) + &wrapped(&cause, indent);
    let text = if lines(&in_one) < lines(&apart) { in_one } else { apart };
    format!("{line}   {}", text.trim_start())
}

/// An operator and its line; of a long path only the file's name.
fn source_text(op: &str, source: &str, width: usize) -> String {
    let whole = format!("{op}, {}", source.trim_start_matches("site-packages/"));
    if whole.chars().count() <= width {
        return whole;
    }
    cut(&format!("{op}, {}", source.rsplit('/').next().unwrap_or(source)), width)
}

/// A text without its beginning where it is too long: the end of a path says most.
fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length - width + 1).collect();
    format!("…{kept}")
}

/// A paragraph that begins with a few words in a style; `rest` begins with what separates it from them.
pub fn led(style: Style, words: &str, rest: &str) -> String {
    let text = wrapped(&format!("{words}{rest}"), 0);
    let rest = text.strip_prefix(words).unwrap_or(&text);
    format!("{style}{words}{style:#}{rest}")
}

/// A paragraph, indented.
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &format!("{:indent$}{line}\n", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &format!("{:indent$}{line}\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_end_at_eighty_columns() {
        let text = wrapped(&"word ".repeat(60), 2);
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")));
        assert_eq!(text.split_whitespace().count(), 60);
    }

    #[test]
    fn a_line_that_a_terminal_wraps_counts_as_two() {
        let style = Style::new().bold();
        assert_eq!(lines(&format!("{style}{}{style:#}\n\n{}\n", "x".repeat(WIDTH), "y".repeat(WIDTH + 1))), 4);
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(cut("encoder.layer.0.output", 12), "…er.0.output");
        assert_eq!(cut("short", 12), "short");
    }
}
