//! Findings in words: a title, what the numbers say, and what to do about it.

use vramfit_explain::findings::{
    Attempt, Cause, Fragmentation, GraphKept, Kept, LONG_RUN, Leak, OutOfMemory, Pinned, Share, Spike,
};
use vramfit_explain::origin::Activity;
use vramfit_explain::{Details, Explanation, Finding};
use vramfit_trace::snapshot::{FrameId, Snapshot};

use super::location::{library_location, location, role};
use crate::size::{grouped, human};

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// One line.
    pub title: String,
    /// What the numbers say, a sentence or two each.
    pub facts: Vec<String>,
    /// What to do.
    pub advice: String,
}

/// Puts `finding` into words.
pub fn words(snapshot: &Snapshot, explanation: &Explanation, finding: &Finding) -> Words {
    let writer = Writer { snapshot, explanation };
    match &finding.details {
        Details::Leak(leak) => writer.leak(finding, leak),
        Details::Oom(oom) => writer.oom(oom),
        Details::Fragmentation(fragmentation) => writer.fragmentation(finding, fragmentation),
        Details::GraphKept(graph) => writer.graph_kept(finding, graph),
        Details::Spike(spike) => writer.spike(finding, spike),
    }
}

/// `part` of `whole` in per cent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// `1 block`, `2 blocks`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

struct Writer<'a> {
    snapshot: &'a Snapshot,
    explanation: &'a Explanation,
}

impl Writer<'_> {
    fn place(&self, frame: Option<FrameId>) -> String {
        frame.map_or_else(|| "an unknown line".into(), |frame| location(self.snapshot, frame))
    }

    fn share(&self, share: &Share) -> String {
        let place = match (share.place, share.activity) {
            (None, Activity::Backward) => "the backward pass (no Python frame)".into(),
            (frame, _) => self.place(frame),
        };
        format!("{} by {place}", human(share.bytes))
    }

    fn shares(&self, shares: &[Share]) -> Option<String> {
        let named: Vec<String> = shares.iter().take(3).map(|share| self.share(share)).collect();
        (shares.len() > 1 || shares.first().is_some_and(|share| share.place.is_some()))
            .then(|| format!("Made: {}{}.", named.join(", "), if shares.len() > 3 { ", …" } else { "" }))
    }

    /// The library's line inside the user's, where there is one.
    fn library(&self, finding: &Finding) -> Option<String> {
        library_location(self.snapshot, finding.stack).map(|place| format!("The largest part by way of {place}."))
    }

    fn leak(&self, finding: &Finding, leak: &Leak) -> Words {
        let per_step = human(finding.per_step.unwrap_or(0));
        let turn =
            if self.explanation.steps.is_training || !self.explanation.origins.has_frames { "step" } else { "call" };
        let blocks = count(leak.blocks_per_step, "block");
        let stay = if leak.blocks_per_step == 1 { "stays" } else { "stay" };
        let what = match leak.kept {
            Kept::Graph => format!("Every {turn}'s graph stays in memory, with its activations: {blocks}."),
            Kept::Outputs => format!("Of what the model makes in every {turn}, {blocks} {stay} in memory."),
            Kept::Tensors => format!("Of what every {turn} makes, {blocks} {stay} in memory."),
            Kept::Gradients => format!("Of what every {turn}'s backward pass makes, {blocks} {stay} in memory."),
        };
        let advice = match leak.kept {
            Kept::Graph => {
                "Keep numbers, not tensors: `total += loss.item()` instead of `total = total + loss`, and no \
                 `retain_graph=True`. What must stay a tensor: `.detach()` it."
            }
            Kept::Outputs => {
                "Something holds on to the model's output, such as `history.append(output)`. Keep \
                 `output.detach().cpu()`, or only the number computed from it."
            }
            Kept::Tensors if self.explanation.origins.has_frames => {
                "Something holds on to this tensor, such as a list that is appended to. Move it with `.cpu()`, or drop \
                 it after the step."
            }
            Kept::Tensors => {
                "Look for a list that every step appends a tensor to, or a sum of tensors. To see the line, record \
                 with `_record_memory_history(stacks=\"python\")`."
            }
            Kept::Gradients => {
                "Something holds on to gradients: a list of `.grad`, or `create_graph=True` with a result that is kept."
            }
        };
        let mut facts = vec![what];
        facts.extend(self.shares(&leak.shares));
        facts.extend(self.library(finding));
        let grown = finding.per_step.unwrap_or(0).saturating_mul(LONG_RUN);
        facts.insert(0, format!("After {} {turn}s it would be {}.", grouped(LONG_RUN), human(grown)));
        if let Some(event) = leak.released {
            facts.push(format!("It is freed from event {} on, after piling up.", grouped(event.into())));
        }
        Words {
            title: format!("{per_step} a {turn}, {} in {}", human(finding.bytes), count(leak.steps as u64, turn)),
            facts,
            advice: advice.into(),
        }
    }

    fn graph_kept(&self, finding: &Finding, graph: &GraphKept) -> Words {
        let released = match graph.released {
            Some(event) => format!("The last of it is freed at event {}.", grouped(event.into())),
            None => "Some of it is still held at the end.".into(),
        };
        Words {
            title: format!("at most {} held, by {} without no_grad", human(finding.bytes), calls(graph.passes)),
            facts: vec![
                format!(
                    "Each call of the model leaves {} behind ({}), as training does for a backward pass, but none follows.",
                    count(graph.blocks_per_pass, "block"),
                    human(graph.per_pass)
                ),
                released,
            ],
            advice: "If this is an evaluation, put `with torch.no_grad():` (or `torch.inference_mode()`) around it."
                .into(),
        }
    }

    fn spike(&self, finding: &Finding, spike: &Spike) -> Words {
        let peak = self.explanation.peak.allocated;
        let what = match spike.blocks {
            1 => "1 block that lives only briefly sets the peak; without it,".into(),
            number => format!("{number} blocks that live only briefly set the peak; without them,"),
        };
        let mut facts = vec![format!("{what} the peak would be {} instead of {}.", human(spike.without), human(peak))];
        if spike.has_gradients && spike.activity != Activity::Optimizer {
            facts.push("The backward pass makes gradients of the same size; they are counted with it.".into());
        }
        facts.extend(self.shares(&spike.shares));
        facts.extend(self.library(finding));
        let advice = match spike.activity {
            Activity::Optimizer => {
                "These are the optimizer's temporaries, as large as the parameters they are for. `fused=True` makes \
                 none; `foreach=False` makes them one parameter at a time."
            }
            Activity::Forward | Activity::Other => {
                "Do not make it whole: compute the loss in chunks of the batch or the sequence, leave out a copy to \
                 fp32 (`.float()`), or use a fused loss."
            }
            _ => "Record with stacks to see which line makes it.",
        };
        Words {
            title: format!("{}, {} of the peak, live only briefly", human(finding.bytes), percent(finding.bytes, peak)),
            facts,
            advice: advice.into(),
        }
    }

    fn pinned(&self, pinned: &Pinned) -> Vec<String> {
        let mut facts = Vec::new();
        if pinned.segments > 0 {
            let by = pinned.by.first().map_or(String::new(), |line| {
                let who = match line.place {
                    Some(_) => format!("{} ({})", self.place(line.place), role(line.role)),
                    None => format!("the backward pass ({})", role(line.role)),
                };
                format!(
                    "; {who} holds {} in {} of them, next to {} free",
                    human(line.bytes),
                    line.segments,
                    human(line.free)
                )
            });
            facts.push(format!(
                "{} are free in {} that live blocks pin{by}.",
                human(pinned.free),
                count(pinned.segments, "segment")
            ));
        }
        if pinned.cached > 0 {
            facts
                .push(format!("{} more are whole free segments: cache, given back when needed.", human(pinned.cached)));
        }
        facts
    }

    fn fragmentation(&self, finding: &Finding, found: &Fragmentation) -> Words {
        let mut facts = self.pinned(&found.pinned);
        facts.push(format!("The largest hole is {}.", human(found.pinned.largest_hole)));
        let best = found.gains.first().filter(|gain| gain.peak_reserved < found.replayed);
        let advice = match best {
            Some(gain) => format!(
                "PYTORCH_CUDA_ALLOC_CONF={} would reserve {} at most instead of {} (replayed, without a limit).",
                gain.text,
                human(gain.peak_reserved),
                human(found.replayed)
            ),
            None if found.gains.is_empty() => {
                "The segments already grow and shrink (expandable_segments); no other setting is worth a try.".into()
            }
            None => format!(
                "No setting of the allocator helps: {} were tried by replay. Sizes that vary less would.",
                found.gains.len()
            ),
        };
        Words {
            title: format!(
                "{} of {} reserved ({}) could not be used",
                human(finding.bytes),
                human(found.reserved),
                percent(finding.bytes, found.reserved)
            ),
            facts,
            advice,
        }
    }

    fn oom(&self, oom: &OutOfMemory) -> Words {
        let free = oom.reserved.saturating_sub(oom.allocated);
        let mut facts = Vec::new();
        match oom.device_free {
            Some(bytes) if bytes >= oom.segment => facts.push(format!(
                "{} were free on the device, so a limit on the process refused it, not the device.",
                human(bytes)
            )),
            Some(bytes) => facts.push(format!("{} were free on the device.", human(bytes))),
            None => facts.push(format!("Not recorded: it follows from a cap of {}.", human(oom.limit.least))),
        }
        facts.push(match oom.cause {
            Cause::TooMuch => format!(
                "PyTorch had reserved {} and held {} of it; the {} left over would not have been enough in one piece.",
                human(oom.reserved),
                human(oom.allocated),
                human(free)
            ),
            Cause::Fragmented => format!(
                "PyTorch had reserved {} and held {} of it; {} were free, but in {}{}.",
                human(oom.reserved),
                human(oom.allocated),
                human(free),
                count(oom.pinned.holes, "piece"),
                match oom.pinned.largest_hole {
                    0 => String::new(),
                    hole => format!(", the largest {}", human(hole)),
                }
            ),
        });
        facts.extend(self.pinned(&oom.pinned));
        if oom.count > 1 {
            facts.push(format!("{} allocations failed in the recording; this is the last.", oom.count));
        }
        if !oom.limit.is_given && oom.limit.most > oom.limit.least {
            facts.push(format!(
                "The limit is not recorded: between {} and {} (--vram gives it).",
                human(oom.limit.least),
                human(oom.limit.most)
            ));
        }
        Words { title: format!("{} asked for and refused", human(oom.asked)), facts, advice: self.oom_advice(oom) }
    }

    fn oom_advice(&self, oom: &OutOfMemory) -> String {
        let with = |attempts: Vec<&Attempt>| {
            let texts: Vec<&str> = attempts.iter().map(|attempt| attempt.text.as_str()).collect();
            texts.join(" or ")
        };
        if !oom.is_reproduced {
            return format!(
                "A replay under the recorded settings does not fail with {}: something else on the GPU took memory.",
                human(oom.limit.least)
            );
        }
        let served: Vec<&Attempt> = oom.attempts.iter().filter(|attempt| attempt.is_served).collect();
        if !served.is_empty() {
            let first = served[0].text.clone();
            let others = with(served[1..].to_vec());
            let others = if others.is_empty() { String::new() } else { format!(" So would {others}.") };
            return format!(
                "PYTORCH_CUDA_ALLOC_CONF={first} would have let it through (replayed), with {} to spare for what \
                 follows, which is not recorded.{others}",
                human(oom.spare())
            );
        }
        let perhaps: Vec<&Attempt> = oom.attempts.iter().filter(|attempt| attempt.is_perhaps_served).collect();
        let tried = count(oom.attempts.len() as u64, "setting");
        if !perhaps.is_empty() {
            return format!(
                "Of {tried} tried by replay, {} would let it through with {}, none with {}. Give --vram to know. \
                 Otherwise less has to be held: a smaller batch, checkpointing, a leaner optimizer.",
                with(perhaps),
                human(oom.limit.most),
                human(oom.limit.least)
            );
        }
        format!(
            "No setting of the allocator would have let it through: {tried} tried by replay. Less has to be held: a \
             smaller batch, checkpointing, a leaner optimizer; look at who holds the peak."
        )
    }
}

fn calls(number: usize) -> String {
    count(number as u64, "call")
}
