//! The rows of the process table: sorted, filtered, or as a tree.

use std::cmp::Ordering;
use std::collections::HashMap;

use vramfit_monitor::platform::is_own;
use vramfit_monitor::sample::{Process, Sample};

/// What processes are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// GPU memory, largest first.
    Memory,
    /// GPU utilisation, highest first.
    Gpu,
    /// CPU use, highest first.
    Cpu,
    /// Age, oldest first.
    Time,
    /// User name.
    User,
    /// PID.
    Pid,
}

/// A process on a GPU.
#[derive(Clone, Debug)]
pub struct Row {
    /// The GPU.
    pub gpu: usize,
    /// The process.
    pub process: Process,
    /// Its depth in the tree.
    pub depth: usize,
}

impl Row {
    /// Its GPU and PID.
    pub fn key(&self) -> (usize, u32) {
        (self.gpu, self.process.pid)
    }

    /// The whole command line, or why it is not known.
    pub fn command(&self) -> String {
        match &self.process.host {
            Ok(host) if host.arguments.is_empty() => "?".to_owned(),
            Ok(host) => host.arguments.join(" "),
            Err(reason) => format!("({reason})"),
        }
    }

    /// The user, or `hidden`.
    pub fn user(&self) -> &str {
        self.process.host.as_ref().map_or("hidden", |host| host.user.as_str())
    }
}

/// How processes are sorted and filtered.
pub struct View {
    /// What they are sorted by.
    pub sort: Sort,
    /// Whether the order is reversed.
    pub is_reversed: bool,
    /// Whether children are shown below their parents.
    pub is_tree: bool,
    /// Whether only the user's own processes are shown.
    pub only_mine: bool,
    /// Show only this user's processes.
    pub only_user: Option<String>,
    /// Show only processes that contain this text.
    pub filter: String,
}

impl View {
    /// By memory, without a filter.
    pub fn new(only_mine: bool) -> View {
        View {
            sort: Sort::Memory,
            is_reversed: false,
            is_tree: false,
            only_mine,
            only_user: None,
            filter: String::new(),
        }
    }
}

/// The rows to show.
pub fn arrange(sample: &Sample, view: &View) -> Vec<Row> {
    let mut rows = all(sample);
    let filter = view.filter.to_lowercase();
    rows.retain(|row| {
        let is_mine = row.process.host.as_ref().is_ok_and(is_own);
        let is_users = view.only_user.as_deref().is_none_or(|user| row.user() == user);
        (is_mine || !view.only_mine) && is_users && (filter.is_empty() || contains(row, &filter))
    });
    rows.sort_by(|one, other| {
        let order = compare(one, other, view.sort);
        let order = if view.is_reversed { order.reverse() } else { order };
        order.then(one.gpu.cmp(&other.gpu)).then(one.process.pid.cmp(&other.process.pid))
    });
    if view.is_tree { tree(rows) } else { rows }
}

fn all(sample: &Sample) -> Vec<Row> {
    let of = |gpu: &vramfit_monitor::sample::Gpu| {
        let index = gpu.index;
        let processes = gpu.processes.clone().unwrap_or_default();
        processes.into_iter().map(move |process| Row { gpu: index, process, depth: 0 })
    };
    sample.gpus.iter().flat_map(of).collect()
}

fn contains(row: &Row, filter: &str) -> bool {
    let container = row.process.host.as_ref().ok().and_then(|host| host.container.clone()).unwrap_or_default();
    let text = format!("{} {} {} {container}", row.process.pid, row.user(), row.command());
    text.to_lowercase().contains(filter)
}

/// Large values first, names alphabetically; missing values last.
fn compare(one: &Row, other: &Row, sort: Sort) -> Ordering {
    let number = |row: &Row| -> f64 {
        let host = row.process.host.as_ref().ok();
        let value = match sort {
            Sort::Memory => row.process.gpu_memory.as_ref().ok().map(|bytes| *bytes as f64),
            Sort::Gpu => row.process.gpu_utilization.as_ref().ok().map(|percent| f64::from(*percent)),
            Sort::Cpu => host.and_then(|host| host.cpu_percent.as_ref().ok().copied()),
            Sort::Time => host.map(|host| host.age),
            Sort::User | Sort::Pid => None,
        };
        value.unwrap_or(-1.0)
    };
    match sort {
        Sort::User => one.user().cmp(other.user()),
        Sort::Pid => one.process.pid.cmp(&other.process.pid),
        _ => number(other).total_cmp(&number(one)),
    }
}

/// Children below their parents; each level keeps its order.
fn tree(rows: Vec<Row>) -> Vec<Row> {
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    let first_of: HashMap<u32, usize> =
        rows.iter().enumerate().rev().map(|(position, row)| (row.process.pid, position)).collect();
    for (position, row) in rows.iter().enumerate() {
        let parent = row.process.host.as_ref().ok().and_then(|host| first_of.get(&host.parent)).copied();
        children.entry(parent.filter(|parent| *parent != position)).or_default().push(position);
    }
    let mut ordered = Vec::with_capacity(rows.len());
    let mut is_placed = vec![false; rows.len()];
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    push(&mut waiting, children.get(&None), 0);
    while let Some((position, depth)) = waiting.pop() {
        if std::mem::replace(&mut is_placed[position], true) {
            continue;
        }
        ordered.push(Row { depth, ..rows[position].clone() });
        push(&mut waiting, children.get(&Some(position)), depth + 1);
    }
    // Reused PIDs may form a cycle of parents; its processes are added at the end.
    ordered.extend(rows.iter().zip(is_placed).filter(|(_, placed)| !placed).map(|(row, _)| row.clone()));
    ordered
}

fn push(waiting: &mut Vec<(usize, usize)>, positions: Option<&Vec<usize>>, depth: usize) {
    waiting.extend(positions.into_iter().flatten().rev().map(|position| (*position, depth)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_monitor::reading::Missing;
    use vramfit_monitor::sample::{HostProcess, Use};

    fn row(pid: u32, parent: u32) -> Row {
        let host = HostProcess {
            parent,
            uid: Some(0),
            user: "x".to_owned(),
            state: 'S',
            started: 0,
            arguments: Vec::new(),
            cpu_percent: Err(Missing::NotAsked),
            cpu_seconds: 0.0,
            memory: 0,
            age: 0.0,
            container: None,
            context: None,
        };
        let process = Process {
            pid,
            usage: Use::Compute,
            gpu_memory: Ok(0),
            gpu_utilization: Err(Missing::Mig),
            gpu_instance: None,
            host: Ok(host),
        };
        Row { gpu: 0, process, depth: 0 }
    }

    fn shape(rows: Vec<Row>) -> Vec<(u32, usize)> {
        tree(rows).into_iter().map(|row| (row.process.pid, row.depth)).collect()
    }

    #[test]
    fn children_are_below_their_parents_in_the_given_order() {
        let rows = vec![row(30, 10), row(10, 1), row(20, 1), row(40, 30), row(31, 10)];
        assert_eq!(shape(rows), [(10, 0), (30, 1), (40, 2), (31, 1), (20, 0)]);
    }

    #[test]
    fn a_cycle_of_parents_loses_no_process() {
        assert_eq!(shape(vec![row(1, 2), row(2, 1), row(3, 3)]).len(), 3);
    }
}
