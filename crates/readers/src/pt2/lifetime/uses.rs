//! How often tensors are used, and by which module calls.

use super::super::call_site::CallSites;
use super::super::event::Event;
use vramfit_graph::model::TensorId;

/// The uses of a variant's tensors.
pub(super) struct Uses {
    /// How often each tensor is used.
    pub(super) uses: Vec<u32>,
    /// The tensors that each module call gets from outside.
    pub(super) given: Vec<Vec<TensorId>>,
}

impl Uses {
    /// Counts the uses by `events`; the first `given_count` tensors exist before the step.
    pub(super) fn count(events: &[Event], tensors: usize, sites: &CallSites<'_>, given_count: usize) -> Uses {
        let mut uses = vec![0_u32; tensors];
        let mut made_at = vec![0_usize; tensors];
        let mut begun: Vec<Option<usize>> = vec![None; sites.calls.len()];
        let mut given: Vec<Vec<TensorId>> = vec![Vec::new(); sites.calls.len()];
        for (at, event) in events.iter().enumerate() {
            if let Event::End(tensors) = event {
                tensors.iter().for_each(|tensor| uses[tensor.0 as usize] += 1);
            }
            let Event::Call(call, site) = event else { continue };
            let calls = &sites.get(*site).calls;
            for module in calls {
                begun[*module as usize].get_or_insert(at);
            }
            call.each_tensor(&mut |tensor| {
                uses[tensor.0 as usize] += 1;
                // What exists before the step is not freed in it.
                if (tensor.0 as usize) < given_count {
                    return;
                }
                for module in calls {
                    if Some(made_at[tensor.0 as usize]) < begun[*module as usize] {
                        let list = &mut given[*module as usize];
                        if !list.contains(&tensor) {
                            list.push(tensor);
                        }
                    }
                }
            });
            for tensor in call.results.iter().flatten() {
                if made_at[tensor.0 as usize] == 0 {
                    made_at[tensor.0 as usize] = at;
                }
            }
        }
        Uses { uses, given }
    }
}
