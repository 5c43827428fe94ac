//! What `vramfit replay` shows.

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use vramfit_replay::{RecordedReplay, Totals, WhatIf};
use vramfit_trace::snapshot::{Action, Device};

use crate::out_of_memory::{DeviceMemory, message};
use crate::size::human;

/// The answer of `vramfit replay --json`. Sizes are bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayReport {
    /// The GPU of the recording, by number.
    pub device: usize,
    /// How many events were replayed.
    pub events: usize,
    /// How many of them differ from what was recorded.
    pub mismatches: u64,
    /// The recording's numbers.
    pub recorded: TotalsReport,
    /// The replay's: the recording's own settings, or the ones asked for.
    pub replayed: TotalsReport,
    /// The first allocation that failed, recorded or replayed.
    pub oom: Option<OomReport>,
    /// The settings asked for, where other than recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIfReport>,
    /// The first differences from the recording, in words.
    pub first_mismatches: Vec<String>,
}

/// What a run took in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TotalsReport {
    /// Peak allocated bytes.
    pub peak_allocated: u64,
    /// Peak reserved bytes.
    pub peak_reserved: u64,
    /// Segments at the end.
    pub segments: u64,
}

impl From<Totals> for TotalsReport {
    fn from(totals: Totals) -> Self {
        let Totals { peak_allocated, peak_reserved, segments } = totals;
        TotalsReport { peak_allocated, peak_reserved, segments }
    }
}

/// An allocation that failed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OomReport {
    /// The event of the recording; null before the first.
    pub event: Option<u32>,
    /// Bytes of the block that could not be allocated.
    pub requested: u64,
    /// Free bytes on the device, where recorded.
    pub device_free: Option<u64>,
    /// PyTorch's error message, for a replayed failure.
    pub message: Option<String>,
}

/// What was asked for instead of the recording's settings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIfReport {
    /// `--alloc-conf`.
    pub alloc_conf: Option<String>,
    /// `--vram`.
    pub vram: Option<u64>,
    /// How many allocations the recording shows as refused.
    pub refused_in_recording: usize,
    /// How many of those would have been served.
    pub refused_but_served: usize,
    /// How often the cache was emptied because the driver or the cap had refused.
    pub retries: u64,
}

impl ReplayReport {
    /// The report on a faithful replay.
    pub fn faithful(device: &Device, number: usize, replay: &RecordedReplay) -> ReplayReport {
        let oom = replay.ooms.first().map(|&index| {
            let event = device.events[index];
            debug_assert_eq!(event.action, Action::Oom);
            let device_free = Some(event.address);
            OomReport { event: u32::try_from(index).ok(), requested: event.size, device_free, message: None }
        });
        ReplayReport {
            device: number,
            events: replay.events,
            mismatches: replay.mismatches,
            recorded: replay.recorded.into(),
            replayed: replay.replayed.into(),
            oom,
            what_if: None,
            first_mismatches: replay.first_mismatches.iter().map(ToString::to_string).collect(),
        }
    }

    /// The same with the numbers under other settings in place of the replay's own.
    #[must_use]
    pub fn under(mut self, what_if: &WhatIf, alloc_conf: Option<&str>, vram: Option<u64>) -> ReplayReport {
        self.replayed = what_if.totals.into();
        self.oom = what_if.failure.map(|failure| OomReport {
            event: (failure.event != u32::MAX).then_some(failure.event),
            requested: failure.error.block,
            device_free: None,
            message: Some(message(&failure.error, &DeviceMemory { device: self.device, ..Default::default() })),
        });
        self.what_if = Some(WhatIfReport {
            alloc_conf: alloc_conf.map(Into::into),
            vram,
            refused_in_recording: what_if.refusals.len(),
            refused_but_served: what_if.refusals.iter().filter(|refusal| refusal.is_none()).count(),
            retries: what_if.statistics.alloc_retries,
        });
        self
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        let bold = Style::new().bold();
        let good = AnsiColor::Green.on_default();
        let bad = AnsiColor::Red.on_default().bold();
        let mut text = format!("{bold}GPU {}{bold:#}: {} events", self.device, self.events);
        text += &match self.mismatches {
            0 => format!(", {good}every one replayed as recorded{good:#}\n"),
            count => format!(", {bad}{count} replayed differently from the recording{bad:#}\n"),
        };
        for mismatch in self.first_mismatches.iter().take(10) {
            text += &format!("  {mismatch}\n");
        }
        let title = if self.what_if.is_some() { "what if" } else { "replayed" };
        text += &format!("\n{:18}{:>14}{:>14}\n", "", "recorded", title);
        for (name, recorded, replayed) in [
            ("peak allocated", self.recorded.peak_allocated, self.replayed.peak_allocated),
            ("peak reserved", self.recorded.peak_reserved, self.replayed.peak_reserved),
        ] {
            text += &format!("{name:18}{:>14}{:>14}", human(recorded), human(replayed));
            if recorded != replayed && recorded > 0 {
                let change = (replayed as f64 / recorded as f64 - 1.0) * 100.0;
                text += &format!("   {change:+.1} %");
            }
            text.push('\n');
        }
        text += &format!("{:18}{:>14}{:>14}\n", "segments at end", self.recorded.segments, self.replayed.segments);
        if let Some(what_if) = &self.what_if {
            text += &format!("{:18}{:>14}{:>14}\n", "cache flushes", "", what_if.retries);
            if what_if.refused_in_recording > 0 {
                text += &format!(
                    "\nOf {} allocations that failed in the recording, {} would have been served.\n",
                    what_if.refused_in_recording, what_if.refused_but_served
                );
            }
        }
        if let Some(oom) = &self.oom {
            let place = oom.event.map_or("before the first event".into(), |event| format!("at event {event}"));
            text += &format!("\n{bad}out of memory{bad:#} {place}, asking for {}\n", human(oom.requested));
            if let Some(message) = &oom.message {
                text += &format!("  {message}\n");
            }
        }
        text
    }
}
