//! What the screen shows and where one stands in it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use ratatui::layout::Rect;
use vramfit_monitor::history::History;
use vramfit_monitor::sample::Sample;

use super::kill::Target;
use super::rows::{self, Row, Sort};

/// Points a GPU and a process.
const POINTS: usize = 600;

/// What lies over the screen.
pub enum Dialog {
    /// The keys.
    Help,
    /// One process.
    Details,
    /// Shall it be killed?
    Confirm(Target),
    /// A sentence.
    Note(String),
}

/// Everything the screen knows.
pub struct State {
    /// The newest sample; set by the first `add`.
    pub sample: Option<Sample>,
    /// When it came.
    pub received: Instant,
    /// Time between samples.
    pub interval: Duration,
    /// Calls that have not come back.
    pub stuck: usize,
    /// The GPUs' last minutes.
    pub history: History,
    /// GPU memory of each process on each GPU.
    pub process_history: HashMap<(usize, u32), VecDeque<u64>>,
    /// The processes as they are shown.
    pub rows: Vec<Row>,
    /// The GPU and process one stands on.
    pub selected: Option<(usize, u32)>,
    /// The first row shown.
    pub top: usize,
    /// The first GPU shown, where not all fit.
    pub first_gpu: usize,
    /// By what rows are ordered.
    pub sort: Sort,
    /// The other way round.
    pub is_reversed: bool,
    /// Children under their parents.
    pub is_tree: bool,
    /// Only one's own.
    pub only_mine: bool,
    /// Only this user's.
    pub only_user: Option<String>,
    /// Only those that contain this.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// New samples wait.
    pub is_paused: bool,
    /// What lies over the screen.
    pub dialog: Option<Dialog>,
    /// Whether signals may be sent.
    pub may_kill: bool,
    /// Whether it is this machine, now.
    pub is_live: bool,
    /// A recording has ended.
    pub is_over: bool,
    /// Where the rows were drawn, for the mouse.
    pub table: Rect,
    /// Where the heads of columns were drawn, with what they order by.
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
            sort: Sort::Memory,
            is_reversed: false,
            is_tree: false,
            only_mine,
            only_user: None,
            filter: String::new(),
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

    /// Takes in a sample.
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

    /// Orders and filters the rows anew; one stays on the process one stood on.
    pub fn arrange(&mut self) {
        self.rows = rows::arrange(self);
        let is_there = self.selected.is_some_and(|key| self.rows.iter().any(|row| row.key() == key));
        if !is_there {
            self.selected = self.rows.first().map(Row::key);
        }
    }

    /// The number of the row one stands on.
    pub fn position(&self) -> usize {
        self.rows.iter().position(|row| Some(row.key()) == self.selected).unwrap_or(0)
    }

    /// Moves by so many rows.
    pub fn go(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        let position = self.position().saturating_add_signed(by).min(last);
        self.selected = self.rows.get(position).map(Row::key);
    }

    /// The row one stands on.
    pub fn selected_row(&self) -> Option<&Row> {
        self.rows.get(self.position())
    }

    /// Orders by something; by the same again, the other way round.
    pub fn sort_by(&mut self, sort: Sort) {
        self.is_reversed = self.sort == sort && !self.is_reversed;
        self.sort = sort;
        self.arrange();
    }

    /// Seconds since the newest sample, where it is late.
    pub fn lateness(&self) -> Option<u64> {
        let age = self.received.elapsed();
        (self.is_live && age > self.interval * 2 + Duration::from_secs(1)).then_some(age.as_secs())
    }
}
