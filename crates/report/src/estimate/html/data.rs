//! A simulated run, packed as the viewer takes recordings.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use vramfit_allocator::SegmentAction;
use vramfit_eager::memory::{Category, Entry};
use vramfit_graph::bind::Bound;
use vramfit_training::answer::Answer;
use vramfit_training::{Phase, Run};

use super::super::holders::weights_of;
use super::super::locations::Locations;
use crate::names::{CategoryName, PhaseName};
use crate::viewer::columns::Columns;
use crate::viewer::compress;

/// The regions of the simulated address space that are used. They are so far apart that a browser's numbers, exact up to
/// 2^53, could not hold the distance: on the page they are side by side.
struct Regions(Vec<(u64, u64)>);

/// Addresses farther apart belong to different regions.
const FAR: u64 = 1 << 40;

impl Regions {
    fn of(mut addresses: Vec<u64>) -> Regions {
        addresses.sort_unstable();
        let mut regions: Vec<(u64, u64)> = Vec::new();
        let (mut last, mut next) = (0, 0);
        for address in addresses {
            match regions.last() {
                Some((begin, place)) if address - last <= FAR => next = place + (address - begin) + FAR,
                _ => {
                    regions.push((address, next));
                    next += FAR;
                }
            }
            last = address;
        }
        Regions(regions)
    }

    fn place(&self, address: u64) -> u64 {
        let after = self.0.partition_point(|(begin, _)| *begin <= address);
        after.checked_sub(1).map_or(0, |index| self.0[index].1 + (address - self.0[index].0))
    }
}

/// Memory from the request that allocates it to the one that frees it.
struct Piece {
    id: u32,
    born: u32,
    freed: Option<u32>,
    requested: u64,
    size: u64,
    address: u64,
    origin: u32,
    category: Category,
}

/// The columns, compressed.
pub fn pack(bound: &Bound<'_>, answer: &Answer, locations: &Locations<'_>) -> Vec<u8> {
    let run = &answer.expected;
    let pieces = pieces(run);
    let answered = answered(run);
    let segments: Vec<_> = run.segments.iter().filter(|(instant, _)| *instant <= answered).collect();
    let addresses = pieces.iter().map(|piece| piece.address).chain(segments.iter().map(|(_, change)| change.address));
    let regions = Regions::of(addresses.collect());
    let mut columns = Columns::default();
    columns.add_differences("born", pieces.iter().map(|piece| piece.born.into()));
    columns
        .add("lived", pieces.iter().map(|piece| piece.freed.map_or(0, |freed| u64::from(freed - piece.born).max(1))));
    columns.add("pending", pieces.iter().map(|_| 0));
    columns.add_differences("address", pieces.iter().map(|piece| regions.place(piece.address)));
    columns.add("size", pieces.iter().map(|piece| piece.size));
    columns.add("tail", pieces.iter().map(|piece| piece.size.saturating_sub(piece.requested)));
    columns.add("stream", pieces.iter().map(|_| 0));
    columns.add("role", pieces.iter().map(|piece| CategoryName::from(piece.category).index() as u64));
    columns.add_differences("time", (0..answered).map(|_| 0));
    columns.add_differences("segmentAt", segments.iter().map(|(instant, _)| u64::from(*instant)));
    columns.add("segmentKind", segments.iter().map(|(_, change)| segment_kind(change.action)));
    columns.add_differences("segmentAddress", segments.iter().map(|(_, change)| regions.place(change.address)));
    columns.add("segmentSize", segments.iter().map(|(_, change)| change.size));
    let mut tables = Tables::default();
    let weights = weights_of(bound);
    let weight = |id: u32| weights.get(id as usize).copied().filter(|module| !module.is_empty());
    let stacks: Vec<u64> = pieces.iter().map(|piece| tables.stack(locations, weight(piece.id), piece.origin)).collect();
    columns.add("stack", stacks.into_iter());
    tables.add_to(&mut columns);
    compress(&columns.finish(head(answer, &tables)))
}

fn segment_kind(action: SegmentAction) -> u64 {
    match action {
        SegmentAction::Allocate => 0,
        SegmentAction::Free => 1,
        SegmentAction::Map => 2,
        SegmentAction::Unmap => 3,
    }
}

/// All memory in the order of its requests; its last label says what it was for.
fn pieces(run: &Run) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    for (index, entry) in run.journal.iter().enumerate() {
        let instant = index as u32 + 1;
        match *entry {
            Entry::Allocate { bytes: 0, .. } => {}
            Entry::Allocate { id, bytes, origin, category, .. } => {
                numbers.insert(id, pieces.len());
                let (freed, requested, size) = (None, bytes, bytes);
                pieces.push(Piece { id, born: instant, freed, requested, size, address: 0, origin, category });
            }
            Entry::Free { id } => {
                if let Some(&number) = numbers.get(&id) {
                    pieces[number].freed = Some(instant);
                }
            }
        }
    }
    for label in &run.labels {
        if let Some(&number) = numbers.get(&label.id) {
            let piece = &mut pieces[number];
            (piece.size, piece.address, piece.category) = (label.block, label.address, label.category);
        }
    }
    // After a failure nothing gets a block, and nothing is freed.
    let answered = answered(run);
    pieces.retain(|piece| piece.born <= answered);
    for piece in &mut pieces {
        piece.freed = piece.freed.filter(|&freed| freed <= answered);
    }
    pieces
}

/// How many requests of a run were answered: all, or those up to the last before the one that failed.
fn answered(run: &Run) -> u32 {
    match run.failure {
        None => run.journal.len() as u32,
        Some(_) => run.labels.last().map_or(0, |label| label.instant),
    }
}

fn head(answer: &Answer, tables: &Tables) -> Map<String, Value> {
    let run = &answer.expected;
    let events = answered(run);
    // A run that fails while it is built has no peak; the most is held where it ends.
    let peak = answer.peaks.map_or(events, |peaks| peaks.first.peak.instant);
    let mut steps: Vec<[u32; 2]> = Vec::new();
    let mut phases: Vec<Value> = Vec::new();
    let (mut start, mut before) = (0, 0);
    for phase in &run.phases {
        let end = phase.end.min(events);
        phases.push(json!([before, end, PhaseName::from(phase.phase).beside_step()]));
        before = end;
        if phase.phase == Phase::Build {
            start = end;
        } else if matches!(phase.phase, Phase::Step | Phase::Eval) {
            steps.push([start, end]);
            start = end;
        }
    }
    let head = json!({
        "events": events,
        "lowestAddress": "0",
        "earlier": 0,
        "hasFrames": true,
        "isSimulated": true,
        "steps": steps,
        "phases": phases,
        "unfinished": null,
        "roles": CategoryName::ALL.map(CategoryName::name),
        "roleOrder": (0..CategoryName::ALL.len()).collect::<Vec<_>>(),
        "findings": [],
        "peak": i64::from(peak) - 1,
        "reservedPeak": i64::from(peak) - 1,
        "ooms": run.failure.map_or_else(Vec::new, |failure| vec![json!([events, failure.error.requested])]),
        "strings": tables.strings,
    });
    match head {
        Value::Object(head) => head,
        _ => Map::new(),
    }
}

/// Strings, frames and stacks: one stack for each step, with one frame, its source line.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_numbers: HashMap<String, u64>,
    stacks: HashMap<(Option<usize>, u32), u64>,
    /// For each stack its module, as a string's number plus one, and whether it has a frame.
    modules: Vec<(u64, bool)>,
    frames: Vec<(u64, u64, u64)>,
}

impl Tables {
    fn string(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.string_numbers.get(text) {
            return number;
        }
        let number = self.strings.len() as u64;
        self.strings.push(text.to_owned());
        self.string_numbers.insert(text.to_owned(), number);
        number
    }

    fn stack(&mut self, locations: &Locations<'_>, weight: Option<&str>, step: u32) -> u64 {
        let module = weight.or_else(|| locations.module(step));
        let key = (weight.map(|weight| weight.as_ptr().addr()), step);
        if let Some(&number) = self.stacks.get(&key) {
            return number;
        }
        let number = self.modules.len() as u64;
        let module = module.map_or(0, |module| self.string(module) + 1);
        let source = locations.source(step).filter(|_| weight.is_none());
        if let Some(source) = source {
            let operator = locations.operator(step).unwrap_or("");
            let frame = (
                self.string(&source.file),
                source.line.into(),
                self.string(&format!("{} ({operator})", source.function)),
            );
            self.frames.push(frame);
        }
        self.modules.push((module, source.is_some()));
        self.stacks.insert(key, number);
        number
    }

    fn add_to(&self, columns: &mut Columns) {
        columns.add("frameFile", self.frames.iter().map(|frame| frame.0));
        columns.add("frameLine", self.frames.iter().map(|frame| frame.1));
        columns.add("frameFunction", self.frames.iter().map(|frame| frame.2));
        columns.add("frameIsUser", self.frames.iter().map(|_| 1));
        columns.add("stackLength", self.modules.iter().map(|(_, has_frame)| u64::from(*has_frame)));
        columns.add("stackFrames", 0..self.frames.len() as u64);
        let mut frame = 0;
        let owners: Vec<u64> = self
            .modules
            .iter()
            .map(|(_, has_frame)| {
                frame += u64::from(*has_frame);
                if *has_frame { frame } else { 0 }
            })
            .collect();
        columns.add("stackOwner", owners.into_iter());
        columns.add("stackModule", self.modules.iter().map(|(module, _)| *module));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_stand_side_by_side_and_keep_their_distances() {
        let regions = Regions::of(vec![1 << 62, (1 << 60) + 4096, 1 << 60, (1 << 62) + (32 << 20)]);
        assert_eq!(regions.place(1 << 60), 0);
        assert_eq!(regions.place((1 << 60) + 4096), 4096);
        let second = regions.place(1 << 62);
        assert!(second > FAR && second < 1 << 53);
        assert_eq!(regions.place((1 << 62) + (32 << 20)) - second, 32 << 20);
    }
}
