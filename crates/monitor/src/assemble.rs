//! Puts one GPU's answers together, checks them and gives each missing one its reason.

use std::collections::HashMap;

use crate::plausible;
use crate::process::Counters;
use crate::question::{Answer, ListedProcess, Question};
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, HostProcess, Identity, Memory, Process, Use, Vendor};

/// One GPU's answers, processes taken out.
pub struct Listed {
    index: usize,
    vendor: Vendor,
    /// Source and number there.
    pub place: (usize, usize),
    answers: HashMap<Question, Reading<Answer>>,
    compute: Reading<Vec<ListedProcess>>,
    graphics: Reading<Vec<ListedProcess>>,
}

impl Listed {
    /// From the answers to every question.
    pub fn new(
        index: usize,
        vendor: Vendor,
        place: (usize, usize),
        mut answers: HashMap<Question, Reading<Answer>>,
    ) -> Listed {
        let compute = take(&mut answers, Question::ComputeProcesses).and_then(Answer::processes);
        let graphics = take(&mut answers, Question::GraphicsProcesses).and_then(Answer::processes);
        Listed { index, vendor, place, answers, compute, graphics }
    }

    /// All processes, some twice.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.compute.iter().chain(&self.graphics).flatten().map(|process| process.pid)
    }

    /// Keeps the processes of one list that are to be kept.
    pub fn retain(&mut self, question: Question, keep: impl Fn(u32) -> bool) {
        let list = if question == Question::ComputeProcesses { &mut self.compute } else { &mut self.graphics };
        if let Ok(list) = list {
            list.retain(|process| keep(process.pid));
        }
    }

    /// Why the GPU as a whole cannot be read, if it cannot.
    fn unavailable(&self) -> Option<Missing> {
        let lists = [self.compute.as_ref().err(), self.graphics.as_ref().err()];
        let mut errors = self.answers.values().map(|answer| answer.as_ref().err()).chain(lists);
        if errors.clone().any(|error| error == Some(&Missing::Lost)) {
            return Some(Missing::Lost);
        }
        let first = self.answers.get(&Question::Name).and_then(|answer| answer.as_ref().err());
        errors.all(|error| error.is_some()).then(|| first.cloned())?
    }
}

/// One GPU of a sample.
pub fn gpu(
    mut listed: Listed,
    hosts: &HashMap<u32, Reading<(HostProcess, Counters)>>,
    identities: &mut HashMap<usize, Identity>,
) -> Gpu {
    let index = listed.index;
    if let Some(reason) = listed.unavailable() {
        let mut gpu = Gpu::without_readings(index, listed.vendor, &reason);
        gpu.last_known = identities.get(&index).cloned();
        return gpu;
    }
    let answers = &mut listed.answers;
    let mig = take(answers, Question::Mig);
    let (is_split, mig) = match mig {
        Ok(Answer::Mig(Some(devices))) => (true, devices),
        _ => (false, Vec::new()),
    };
    let because_of_mig =
        |missing: Missing| if is_split && missing == Missing::NotSupported { Missing::Mig } else { missing };
    let mut number = |question: Question, check: fn(u32) -> Reading<u32>| {
        take(answers, question).and_then(Answer::number).and_then(check).map_err(because_of_mig)
    };
    let temperature = number(Question::Temperature, plausible::temperature);
    let fan_speed = number(Question::FanSpeed, plausible::fan);
    let utilization = number(Question::Utilization, plausible::percent);
    let encoder = number(Question::Encoder, plausible::percent);
    let decoder = number(Question::Decoder, plausible::percent);
    let power = number(Question::Power, plausible::power);
    let power_limit = number(Question::PowerLimit, plausible::power);
    let memory = take(answers, Question::Memory)
        .and_then(Answer::memory)
        .and_then(plausible::memory)
        .map_err(|missing| if is_split && missing == Missing::UnifiedMemory { Missing::Mig } else { missing });
    let shares = match take(answers, Question::ProcessUtilization) {
        Ok(Answer::Shares(shares)) => Ok(shares),
        Ok(_) => Err(Missing::NotSupported),
        Err(missing) => Err(because_of_mig(missing)),
    };
    let name = take(answers, Question::Name).and_then(Answer::text);
    let uuid = take(answers, Question::Uuid).and_then(Answer::text);
    if let (Ok(name), Ok(uuid)) = (&name, &uuid) {
        identities.insert(index, Identity { name: name.clone(), uuid: uuid.clone() });
    }
    let processes = merge(listed.compute, listed.graphics).map_err(because_of_mig).map(|list| {
        let process =
            |(one, usage): (ListedProcess, Use)| process(one, usage, memory.as_ref().ok(), &shares, is_split, hosts);
        list.into_iter().map(process).collect()
    });
    Gpu {
        index,
        vendor: listed.vendor,
        unavailable: None,
        last_known: identities.get(&index).cloned(),
        name,
        uuid,
        temperature,
        fan_speed,
        utilization,
        encoder,
        decoder,
        power,
        power_limit,
        memory,
        mig,
        processes,
    }
}

/// Both lists by PID, in the order of the driver. A process in both counts once, with the larger of its two figures.
fn merge(
    compute: Reading<Vec<ListedProcess>>,
    graphics: Reading<Vec<ListedProcess>>,
) -> Reading<Vec<(ListedProcess, Use)>> {
    if let (Err(missing), Err(_)) = (&compute, &graphics) {
        return Err(missing.clone());
    }
    let mut merged: Vec<(ListedProcess, Use)> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    let both = [(compute, Use::Compute), (graphics, Use::Graphics)];
    for (list, usage) in both {
        for process in list.unwrap_or_default() {
            match places.get(&process.pid) {
                Some(&place) => {
                    let known = &mut merged[place];
                    if known.1 != usage {
                        known.1 = Use::ComputeAndGraphics;
                        known.0.memory = larger(known.0.memory.clone(), process.memory);
                    } else {
                        // Under MIG a process stands in the list once for each device it uses.
                        known.0.memory = sum(known.0.memory.clone(), process.memory);
                    }
                }
                None => {
                    places.insert(process.pid, merged.len());
                    merged.push((process, usage));
                }
            }
        }
    }
    Ok(merged)
}

fn larger(one: Reading<u64>, other: Reading<u64>) -> Reading<u64> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.max(other)),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) => Ok(known),
        (Err(missing), Err(_)) => Err(missing),
    }
}

fn sum(one: Reading<u64>, other: Reading<u64>) -> Reading<u64> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.saturating_add(other)),
        (one, other) => larger(one, other),
    }
}

fn process(
    listed: ListedProcess,
    usage: Use,
    gpu: Option<&Memory>,
    shares: &Reading<Vec<(u32, u32)>>,
    is_split: bool,
    hosts: &HashMap<u32, Reading<(HostProcess, Counters)>>,
) -> Process {
    let pid = listed.pid;
    let gpu_memory = listed.memory.and_then(|bytes| plausible::process_memory(bytes, gpu));
    let gpu_memory =
        gpu_memory.map_err(|missing| if is_split && missing == Missing::NotSupported { Missing::Mig } else { missing });
    // A process that has not used the GPU of late has no sample.
    let gpu_utilization = match shares {
        Ok(shares) => {
            let share = shares.iter().find(|(owner, _)| *owner == pid).map_or(0, |(_, share)| *share);
            plausible::percent(share)
        }
        Err(missing) => Err(missing.clone()),
    };
    let host = match hosts.get(&pid) {
        Some(Ok((host, _))) => Ok(host.clone()),
        Some(Err(missing)) => Err(missing.clone()),
        None => Err(Missing::HiddenProcess),
    };
    Process { pid, usage, gpu_memory, gpu_utilization, gpu_instance: listed.gpu_instance, host }
}

fn take(answers: &mut HashMap<Question, Reading<Answer>>, question: Question) -> Reading<Answer> {
    answers.remove(&question).unwrap_or(Err(Missing::NoAnswer))
}
