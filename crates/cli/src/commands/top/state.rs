//! The state of the screen.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use ratatui::layout::Rect;
use vramfit_monitor::history::History;
use vramfit_monitor::sample::Sample;

use super::kill::Target;
use super::rows::{self, Row, Sort, View};

/// Points of history for each GPU and process.
const POINTS: usize = 600;

/// A dialog over the screen.
pub enum Dialog {
    /// The keys.
    Help,
    /// The details of the selected process.
    Details,
    /// Whether to send a signal.
    Confirm(Target),
    /// A message.
    Note(String),
}

/// Everything that is drawn.
pub struct State {
    /// The newest sample; set by the first `add`.
    pub sample: Option<Sample>,
    /// When it was received.
    pub received: Instant,
    /// Time between samples.
    pub interval: Duration,
    /// The number of driver calls that hang.
    pub stuck: usize,
    /// The GPUs' last minutes.
    pub history: History,
    /// GPU memory of each process on each GPU.
    pub process_history: HashMap<(usize, u32), VecDeque<u64>>,
    /// The processes, sorted and filtered.
    pub rows: Vec<Row>,
    /// The selected GPU and process.
    pub selected: Option<(usize, u32)>,
    /// The first row shown.
    pub top: usize,
    /// The first GPU shown, if not all fit.
    pub first_gpu: usize,
    /// How processes are sorted and filtered.
    pub view: View,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether new samples are held back.
    pub is_paused: bool,
    /// The open dialog.
    pub dialog: Option<Dialog>,
    /// Whether signals may be sent.
    pub may_kill: bool,
    /// Whether samples are of this machine.
    pub is_live: bool,
    /// Whether the recording has ended.
    pub is_over: bool,
    /// Where the rows were drawn, for the mouse.
    pub table: Rect,
    /// Where the column heads were drawn, with what they sort by.
    pub heads: Vec<(Rect, Sort)>,
}

impl State {
    /// A screen before its first sample.
    pub fn new(interval: Duration, may_kill: bool, only_mine: bool, is_live: bool) -> State {
        State {
            sample: None,
            received: Instant::now(),
            interval,
            stuck: 0,
            history: History::new(POINTS),
            process_history: HashMap::new(),
            rows: Vec::new(),
            selected: None,
            top: 0,
            first_gpu: 0,
            view: View::new(only_mine),
            is_typing: false,
            is_paused: false,
            dialog: None,
            may_kill,
            is_live,
            is_over: false,
            table: Rect::ZERO,
            heads: Vec::new(),
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: Sample, stuck: usize) {
        self.received = Instant::now();
        self.stuck = stuck;
        self.history.add(&sample);
        let mut present = HashSet::new();
        for gpu in &sample.gpus {
            for process in gpu.processes.iter().flatten() {
                let key = (gpu.index, process.pid);
                present.insert(key);
                let points = self.process_history.entry(key).or_default();
                while points.len() >= POINTS {
                    points.pop_front();
                }
                points.push_back(process.gpu_memory.as_ref().copied().unwrap_or(0));
            }
        }
        self.process_history.retain(|key, _| present.contains(key));
        if !self.is_paused || self.sample.is_none() {
            self.sample = Some(sample);
            self.arrange();
        }
    }

    /// Sorts and filters the rows again; the selected process stays selected.
    pub fn arrange(&mut self) {
        self.rows = self.sample.as_ref().map(|sample| rows::arrange(sample, &self.view)).unwrap_or_default();
        let is_there = self.selected.is_some_and(|key| self.rows.iter().any(|row| row.key() == key));
        if !is_there {
            self.selected = self.rows.first().map(Row::key);
        }
    }

    /// The index of the selected row.
    pub fn position(&self) -> usize {
        self.rows.iter().position(|row| Some(row.key()) == self.selected).unwrap_or(0)
    }

    /// Moves the selection by `by` rows.
    pub fn go(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        let position = self.position().saturating_add_signed(by).min(last);
        self.selected = self.rows.get(position).map(Row::key);
    }

    /// The selected row.
    pub fn selected_row(&self) -> Option<&Row> {
        self.rows.get(self.position())
    }

    /// Sorts by something; by the same again reverses the order.
    pub fn sort_by(&mut self, sort: Sort) {
        self.view.is_reversed = self.view.sort == sort && !self.view.is_reversed;
        self.view.sort = sort;
        self.arrange();
    }

    /// Seconds since the newest sample, if it is late.
    pub fn lateness(&self) -> Option<u64> {
        let age = self.received.elapsed();
        (self.is_live && age > self.interval * 2 + Duration::from_secs(1)).then_some(age.as_secs())
    }
}
