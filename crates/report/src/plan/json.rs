//! The contract's JSON.

use serde_json::{Value, json};
use vramfit_plan::search::{Plan, Point};
use vramfit_plan::{Peaks, Setup};

use super::{PlanReport, code};
use crate::estimate;

impl PlanReport<'_, '_> {
    /// The answer as JSON.
    pub fn json(&self) -> Value {
        let answer = self.answer;
        let groups: Vec<Value> = answer
            .groups
            .iter()
            .map(|group| {
                json!({
                    "effect": group.effect.name(),
                    "candidates": group.candidates,
                    "plans": group.best.iter().count() + group.others.len(),
                    "frontier": group.frontier.iter().map(point).collect::<Vec<_>>(),
                })
            })
            .collect();
        let run = &answer.judged.run;
        json!({
            "model": self.model,
            "max_batch": answer.max_batch.map(|found| found.batch),
            "max_batch_is_final": answer.max_batch.map(|found| found.is_final),
            "plans": answer.plans().map(|plan| self.plan(plan)).collect::<Vec<_>>(),
            "start": {
                "settings": self.settings(&answer.start),
                "verdict": answer.judged.verdict.name(),
                "peak_allocated": answer.peaks.allocated,
                "peak_reserved": answer.peaks.reserved,
                "device_used": answer.peaks.reserved + self.bench.device.context_bytes(run.libraries),
                "seconds": answer.seconds,
                "code": code::code(self.bench, &answer.start),
                "parts": code::parts(self.bench, &answer.start),
            },
            "fit": {
                "gpu": self.bench.device.is_asked.then(|| self.bench.device.gpu.name.clone()),
                "capacity": self.bench.device.capacity().map(|capacity| capacity.low),
                "capacity_high": self.bench.device.capacity().map(|capacity| capacity.high),
                "verdict": answer.judged.verdict.name(),
            },
            "groups": groups,
            "tricks": self.tricks(),
            "nothing_fits": self.nothing_json(),
            "cut_short": answer.is_cut_short,
            "simulated": answer.simulated,
            "notes": self.notes,
        })
    }

    pub(super) fn settings(&self, setup: &Setup) -> Value {
        let Some(bound) = self.bench.bind(setup) else { return Value::Null };
        let mut settings = estimate::settings(&bound, &setup.training, &self.bench.device, &setup.alloc_conf);
        if let Some(map) = settings.as_object_mut() {
            map.insert("in_place".into(), setup.is_in_place.into());
            map.insert("batch".into(), self.bench.batch_of(setup).into());
        }
        settings
    }

    fn plan(&self, plan: &Plan) -> Value {
        let changes: Vec<Value> = plan
            .changes
            .iter()
            .map(|change| {
                json!({
                    "trick": change.trick,
                    "before": change.before,
                    "after": change.after,
                    "saving": change.saving,
                    "slowdown": change.slowdown,
                    "effect": change.effect.name(),
                    "warning": change.warning,
                })
            })
            .collect();
        let peaks = Peaks::of(&plan.run);
        json!({
            "settings": self.settings(&plan.setup),
            "changes": changes,
            "peak_allocated": peaks.allocated,
            "peak_reserved": peaks.reserved,
            "device_used": plan.device_used,
            "seconds": plan.seconds,
            "slowdown": plan.slowdown,
            "effect": plan.effect.name(),
            "why": self.bench.bind(&plan.setup).map(|bound| self.why(&bound, &plan.run)),
            "code": self.code(plan),
            "parts": code::parts(self.bench, &plan.setup),
        })
    }

    fn tricks(&self) -> Vec<Value> {
        let rows = self.answer.tricks.iter().map(|row| {
            json!({
                "trick": row.name,
                "effect": row.effect.name(),
                "applies": row.reason.is_none(),
                "reason": row.reason,
                "options": row.shown.iter().map(|shown| json!({
                    "what": shown.what,
                    "saving": shown.saving,
                    "saving_allocated": shown.saving_allocated,
                    "slowdown": shown.slowdown,
                    "warning": shown.warning,
                })).collect::<Vec<_>>(),
                "findings": row.findings.iter().map(|finding| json!({"what": finding.what, "bytes": finding.bytes})).collect::<Vec<_>>(),
                "conflicts": row.conflicts,
                "code": row.written,
            })
        });
        rows.collect()
    }

    fn nothing_json(&self) -> Value {
        let Some(nothing) = self.nothing() else { return Value::Null };
        let gpu = |gpu: &Option<vramfit_plan::search::GpuThatDoes>| {
            gpu.as_ref().map(|gpu| json!({"name": gpu.name, "capacity": gpu.capacity}))
        };
        json!({
            "missing": nothing.missing,
            "needed": nothing.leanest.taken,
            "settings": self.settings(&nothing.leanest.setup),
            "changes": self.leanest_changes(nothing),
            "floor": nothing.leanest.run.peak().map(|phase| estimate::breakdown(&phase.peak)),
            "gpu": gpu(&nothing.gpu),
            "gpu_without_changes": gpu(&nothing.gpu_for_start),
        })
    }
}

fn point(point: &Point) -> Value {
    json!({"taken": point.taken, "slowdown": point.slowdown, "fits": point.fits})
}
