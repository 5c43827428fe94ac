//! The processes in the order they are shown.

use std::cmp::Ordering;
use std::collections::HashMap;

use vramfit_monitor::platform::is_own;
use vramfit_monitor::sample::{Process, Sample};

use super::state::State;

/// By what processes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The most GPU memory first.
    Memory,
    /// The most GPU time first.
    Gpu,
    /// The most processor time first.
    Cpu,
    /// The oldest first.
    Time,
    /// By name.
    User,
    /// By number.
    Pid,
}

/// A process on a GPU.
#[derive(Clone, Debug)]
pub struct Row {
    /// The GPU.
    pub gpu: usize,
    /// The process.
    pub process: Process,
    /// How far it stands below its ancestors in the tree.
    pub depth: usize,
}

impl Row {
    /// What it is known by.
    pub fn key(&self) -> (usize, u32) {
        (self.gpu, self.process.pid)
    }

    /// The whole command, or why it is not known.
    pub fn command(&self) -> String {
        match &self.process.host {
            Ok(host) if host.arguments.is_empty() => "?".to_owned(),
            Ok(host) => host.arguments.join(" "),
            Err(reason) => format!("({reason})"),
        }
    }

    /// The user, or that it is hidden.
    pub fn user(&self) -> &str {
        self.process.host.as_ref().map_or("hidden", |host| host.user.as_str())
    }
}

/// All rows that are to be shown.
pub fn arrange(state: &State) -> Vec<Row> {
    let Some(sample) = &state.sample else { return Vec::new() };
    let mut rows = all(sample);
    let filter = state.filter.to_lowercase();
    rows.retain(|row| {
        let is_mine = row.process.host.as_ref().is_ok_and(is_own);
        let is_users = state.only_user.as_deref().is_none_or(|user| row.user() == user);
        (is_mine || !state.only_mine) && is_users && (filter.is_empty() || contains(row, &filter))
    });
    rows.sort_by(|one, other| {
        let order = compare(one, other, state.sort);
        let order = if state.is_reversed { order.reverse() } else { order };
        order.then(one.gpu.cmp(&other.gpu)).then(one.process.pid.cmp(&other.process.pid))
    });
    if state.is_tree { tree(rows) } else { rows }
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

/// Large values first, names by the alphabet; what is missing last.
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

/// Children below their parents, each level in the order there was.
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
    // Numbers used anew may make a circle of parents; nobody is lost over it.
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
    fn children_stand_below_their_parents_in_the_order_there_was() {
        let rows = vec![row(30, 10), row(10, 1), row(20, 1), row(40, 30), row(31, 10)];
        assert_eq!(shape(rows), [(10, 0), (30, 1), (40, 2), (31, 1), (20, 0)]);
    }

    #[test]
    fn a_circle_of_parents_loses_nobody() {
        assert_eq!(shape(vec![row(1, 2), row(2, 1), row(3, 3)]).len(), 3);
    }
}
