//! Assembles one GPU's answers, checks them and gives each missing one its reason.

use std::collections::HashMap;

use crate::plausible;
use crate::process::Counters;
use crate::question::{Answer, ListedProcess, Question};
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, HostProcess, Identity, Memory, Process, Use, Vendor};

/// One GPU's answers, its process lists taken out.
pub struct AnsweredGpu {
    index: usize,
    vendor: Vendor,
    /// Its source, and its index there.
    pub source_gpu: (usize, usize),
    answers: HashMap<Question, Reading<Answer>>,
    compute: Reading<Vec<ListedProcess>>,
    graphics: Reading<Vec<ListedProcess>>,
}

impl AnsweredGpu {
    /// From the answers to all questions.
    pub fn new(
        index: usize,
        vendor: Vendor,
        source_gpu: (usize, usize),
        mut answers: HashMap<Question, Reading<Answer>>,
    ) -> AnsweredGpu {
        let compute = take(&mut answers, Question::ComputeProcesses).and_then(Answer::processes);
        let graphics = take(&mut answers, Question::GraphicsProcesses).and_then(Answer::processes);
        AnsweredGpu { index, vendor, source_gpu, answers, compute, graphics }
    }

    /// The PIDs of both process lists, some twice.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.compute.iter().chain(&self.graphics).flatten().map(|process| process.pid)
    }

    /// Removes processes from one list.
    pub fn retain(&mut self, question: Question, keep: impl Fn(u32) -> bool) {
        let list = if question == Question::ComputeProcesses { &mut self.compute } else { &mut self.graphics };
        if let Ok(list) = list {
            list.retain(|process| keep(process.pid));
        }
    }

    /// Why the GPU as a whole cannot be read.
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
    mut answered: AnsweredGpu,
    hosts: &HashMap<u32, Reading<(HostProcess, Counters)>>,
    identities: &mut HashMap<usize, Identity>,
) -> Gpu {
    let index = answered.index;
    if let Some(reason) = answered.unavailable() {
        let mut gpu = Gpu::without_readings(index, answered.vendor, &reason);
        gpu.last_known = identities.get(&index).cloned();
        return gpu;
    }
    let answers = &mut answered.answers;
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
    let processes = merge(answered.compute, answered.graphics).map_err(because_of_mig).map(|list| {
        let process =
            |(one, usage): (ListedProcess, Use)| process(one, usage, memory.as_ref().ok(), &shares, is_split, hosts);
        list.into_iter().map(process).collect()
    });
    Gpu {
        index,
        vendor: answered.vendor,
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

/// Merges both lists by PID, in the driver's order. A process in both counts once, with the larger of its two figures.
fn merge(
    compute: Reading<Vec<ListedProcess>>,
    graphics: Reading<Vec<ListedProcess>>,
) -> Reading<Vec<(ListedProcess, Use)>> {
    if let (Err(missing), Err(_)) = (&compute, &graphics) {
        return Err(missing.clone());
    }
    let mut merged: Vec<(ListedProcess, Use)> = Vec::new();
    let mut positions: HashMap<u32, usize> = HashMap::new();
    let both = [(compute, Use::Compute), (graphics, Use::Graphics)];
    for (list, usage) in both {
        for process in list.unwrap_or_default() {
            match positions.get(&process.pid) {
                Some(&position) => {
                    let known = &mut merged[position];
                    if known.1 != usage {
                        known.1 = Use::ComputeAndGraphics;
                        known.0.memory = larger(known.0.memory.clone(), process.memory);
                    } else {
                        // Under MIG a process is listed once for each device it uses.
                        known.0.memory = sum(known.0.memory.clone(), process.memory);
                    }
                }
                None => {
                    positions.insert(process.pid, merged.len());
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
    // A process that has not used the GPU lately has no entry.
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
