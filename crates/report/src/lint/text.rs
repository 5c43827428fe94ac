//! Findings for a terminal: a line each, then the source with the finding underlined.

use std::collections::BTreeMap;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use vramfit_lint::files::FileReport;
use vramfit_lint::rules::RULES;
use vramfit_lint::{Document, Finding, Severity};

use super::recorded;
use crate::explain::wrap;

const WIDTH: usize = 80;

/// All findings, with excerpts.
pub fn text(reports: &[FileReport]) -> String {
    let mut text = String::new();
    for report in reports {
        let Some(document) = &report.document else { continue };
        for finding in &report.checked.findings {
            text += &one(report, document, finding);
        }
    }
    text
}

fn one(report: &FileReport, document: &Document, finding: &Finding) -> String {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let code = match finding.severity {
        Severity::Error => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Note => AnsiColor::Cyan.on_default().bold(),
    };
    let location = location(report, document, finding);
    let mut text = format!("{bold}{location}{bold:#} {code}{}{code:#} {}\n", finding.code, finding.message);
    text += &excerpt(document, finding);
    let mut add = |label: &str, content: &str| {
        let lead = format!("   = {label}: ");
        for (number, line) in wrap(content, WIDTH.saturating_sub(lead.len())).iter().enumerate() {
            text += &match number {
                0 => format!("{dim}{lead}{dim:#}{line}\n"),
                _ => format!("{:1$}{line}\n", "", lead.len()),
            };
        }
    };
    if !finding.is_shown() {
        let open: Vec<&str> = finding.open.iter().map(|open| open.words()).collect();
        add("not shown", &open.join(", and "));
    }
    add("costs", &finding.cost);
    if let Some(recorded) = recorded::words(finding) {
        add("recorded", &recorded);
    }
    add("write", &finding.advice);
    if let Some(fix) = &finding.fix {
        add(if fix.is_safe { "--fix" } else { "--fix --unsafe-fixes" }, &fix.title);
    }
    text + "\n"
}

/// `file:line:column`, in a notebook `file:cell 3:line:column`.
pub(super) fn location(report: &FileReport, document: &Document, finding: &Finding) -> String {
    let position = document.position(finding.range.start());
    let cell = position.cell.map_or(String::new(), |cell| format!("cell {cell}:"));
    format!("{}:{cell}{}:{}", report.path.display(), position.line, position.column)
}

fn excerpt(document: &Document, finding: &Finding) -> String {
    let (line, source, range) = document.excerpt(finding.range);
    let level = Level::WARNING;
    let snippet = Snippet::source(source).line_start(line).fold(false).annotation(AnnotationKind::Primary.span(range));
    let rendered = Renderer::styled().render(&[Group::with_level(level).element(snippet)]);
    rendered.trim_end().to_string() + "\n"
}

/// Files that could not be read or parsed.
pub fn errors(reports: &[FileReport]) -> String {
    let style = AnsiColor::Red.on_default().bold();
    let mut text = String::new();
    for report in reports {
        let path = report.path.display();
        if let Some(reason) = &report.unreadable {
            text += &format!("{style}error:{style:#} {path}: {reason}\n");
        }
        if let (Some((offset, reason)), Some(document)) = (&report.checked.error, &report.document) {
            let position = document.position(*offset);
            let cell = position.cell.map_or(String::new(), |cell| format!("cell {cell}:"));
            text += &format!(
                "{style}error:{style:#} {path}:{cell}{}:{}: syntax error: {reason}\n",
                position.line, position.column
            );
        }
    }
    text
}

/// The last line: how many findings, and how many `--fix` fixes.
pub fn summary(reports: &[FileReport]) -> String {
    let all = || reports.iter().flat_map(|report| &report.checked.findings);
    let findings = || all().filter(|finding| finding.is_shown());
    let notes = all().count() - findings().count();
    let (count, fixable) =
        (findings().count(), findings().filter(|finding| finding.fix.as_ref().is_some_and(|fix| fix.is_safe)).count());
    let unsafely = findings().filter(|finding| finding.fix.as_ref().is_some_and(|fix| !fix.is_safe)).count();
    let is_checked = |report: &&FileReport| report.unreadable.is_none() && report.checked.error.is_none();
    let files = reports.iter().filter(is_checked).count();
    let unchecked = reports.len() - files;
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let missing = format!("{} could not be checked", plural(unchecked, "file"));
    if count == 0 && files == 0 && unchecked > 0 {
        let bad = AnsiColor::Red.on_default();
        return format!("{bad}Nothing was checked{bad:#}: {missing}.\n");
    }
    let with_notes = |text: String| match notes {
        0 => text,
        _ => format!("{}, and {}", text.trim_end().trim_end_matches('.'), plural(notes, "note")) + ".\n",
    };
    if count == 0 && unchecked > 0 {
        return format!("Nothing found in the {} that could be checked; {missing}.\n", plural(files, "file"));
    }
    if count == 0 {
        let good = AnsiColor::Green.on_default();
        return with_notes(format!("{good}No findings{good:#} in {}.\n", plural(files, "file")));
    }
    let mut text = format!("{} in {}", plural(count, "finding"), plural(files, "file"));
    if notes > 0 {
        text += &format!("; {}", plural(notes, "note"));
    }
    if fixable > 0 {
        text += &format!("; {fixable} can be fixed with --fix");
    }
    if unsafely > 0 {
        text += &format!("; {unsafely} with --fix --unsafe-fixes");
    }
    if unchecked > 0 {
        text += &format!("; {missing}");
    }
    text + "\n"
}

/// The number of findings of each rule.
pub fn statistics(reports: &[FileReport]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in reports.iter().flat_map(|report| &report.checked.findings) {
        *counts.entry(finding.code).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    let line = |(code, count): &(&str, usize)| {
        let summary = RULES.iter().find(|rule| rule.code == *code).map_or("", |rule| rule.summary);
        format!("{count:>6}  {code}  {summary}\n")
    };
    counts.iter().map(line).collect()
}

/// All rules, a line each.
pub fn rules() -> String {
    RULES
        .iter()
        .map(|rule| {
            format!("{}  {}{}\n", rule.code, rule.summary, if rule.is_default { "" } else { " (off by default)" })
        })
        .collect()
}
