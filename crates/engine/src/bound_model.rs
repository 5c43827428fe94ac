//! Loads and binds the model that the command line names.

use std::error::Error;

use vramfit_adapters::{FineTuning, Lora, Quantize, Refusal, Targets, fine_tuned, with_fused_attention};
use vramfit_eager::reach::check_reach;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_plan::tricks::in_place;
use vramfit_training::Loop;

use crate::arguments::{FineTuningFlags, ModeKind, ModelAt, ModelDtype, QuantizeScheme, RunSettings};
use crate::built_in::load_for;
use crate::estimate::conflicts::refuse_untrained;
use crate::estimate::ranks::{parallel, refuse};
use vramfit_report::failure::Failure;

impl RunSettings {
    /// Loads the model, for these settings alone.
    pub fn load(&self) -> Result<Model, Failure> {
        // Before the model has no variant for what is not simulated.
        refuse(self)?;
        self.at.load_computing(self.ranks.param_dtype)
    }

    /// Binds the loaded `model` to the sizes, precision and mode of the flags.
    pub fn bind<'a>(&self, model: &'a Model) -> Result<Bound<'a>, Failure> {
        let layout = Loop { parallel: parallel(self)?, has_channels_last: self.channels_last, ..Loop::default() };
        let mut bound = self.at.bind_computing(model, self.ranks.param_dtype)?;
        layout.lay_out(&mut bound).map_err(|error| Failure::at(&self.at.model, error))?;
        refuse_untrained(self, &bound)?;
        Ok(bound)
    }

    /// The type that the model is cast to, or that its sharded modules compute in.
    pub fn computed_dtype(&self) -> Option<Dtype> {
        self.ranks.param_dtype.or(self.at.dtype).map(Into::into)
    }

    /// Whether the flags ask for another model than the one that was loaded.
    pub fn changes_model(&self) -> bool {
        let FineTuningFlags { lora, lora_targets, lora_dropout, quantize, quantize_compute } = &self.at.fine_tuning;
        let is_fine_tuned =
            lora.is_some() || lora_dropout.is_some() || quantize.is_some() || quantize_compute.is_some();
        let is_rewritten = self.at.fused_attention || self.at.in_place;
        is_fine_tuned || !lora_targets.is_empty() || is_rewritten || self.torch.is_some()
    }

    /// The loaded model as one of the PyTorch that `--torch` names.
    pub fn with_torch(&self, model: Model) -> Model {
        Model { torch: self.torch.map(|release| release.to_string()).or(model.torch), ..model }
    }
}

impl FineTuningFlags {
    /// What the flags say.
    pub fn read(&self) -> Result<FineTuning, Failure> {
        let needs = |flag: &str, needed: &str| Failure::new(format!("{flag}: has no effect without {needed}"));
        if self.lora.is_none() && !self.lora_targets.is_empty() {
            return Err(needs("--lora-targets", "--lora"));
        }
        if self.lora.is_none() && self.lora_dropout.is_some() {
            return Err(needs("--lora-dropout", "--lora"));
        }
        if self.quantize != Some(QuantizeScheme::Nf4) && self.quantize_compute.is_some() {
            return Err(needs("--quantize-compute", "--quantize nf4"));
        }
        let targets = match self.lora_targets.as_slice() {
            [] => Targets::Default,
            [word] if word == "all-linear" => Targets::AllLinear,
            names => Targets::Named(names.to_vec()),
        };
        let dropout = self.lora_dropout.map_or(0, |chance| chance.0);
        let compute = self.quantize_compute.map_or(Dtype::Bfloat16, Into::into);
        Ok(FineTuning {
            lora: self.lora.map(|rank| Lora { rank, targets, dropout }),
            quantize: self.quantize.map(|scheme| match scheme {
                QuantizeScheme::Nf4 => Quantize::Nf4 { compute },
                QuantizeScheme::Int8 => Quantize::Int8,
            }),
        })
    }
}

impl ModelAt {
    /// The precision and mode of the flags. Sharded modules may compute in another type than the model's.
    fn variant(&self, computed: Option<ModelDtype>) -> VariantFlags {
        VariantFlags {
            dtype: computed.or(self.dtype).map(Into::into),
            amp: self.amp.map(Into::into),
            is_eval: self.mode == ModeKind::Eval,
            has_grad: self.grad,
        }
    }

    /// Loads the model for a command that uses no other precision and mode, changed as the flags of fine-tuning say.
    pub fn load(&self) -> Result<Model, Failure> {
        self.load_computing(None)
    }

    fn load_computing(&self, computed: Option<ModelDtype>) -> Result<Model, Failure> {
        self.changed(load_for(&self.model, self.variant(computed))?)
    }

    /// The model, changed as the flags say.
    pub fn changed(&self, model: Model) -> Result<Model, Failure> {
        self.fine_tuned(self.rewritten(model)?)
    }

    /// The model with the operators that the flags say.
    pub fn rewritten(&self, mut model: Model) -> Result<Model, Failure> {
        if self.fused_attention {
            let fused = with_fused_attention(&model);
            model = fused.ok_or_else(|| Failure::at(&self.model, Refusal::NoWrittenAttention))?.model;
        }
        if self.in_place {
            let refused = || Failure::new(format!("{}: --in-place: {}", self.model, in_place::why_not(&model)));
            model = in_place::rewrite(&model).ok_or_else(refused)?;
        }
        Ok(model)
    }

    /// The model, changed as the flags of fine-tuning say.
    pub fn fine_tuned(&self, model: Model) -> Result<Model, Failure> {
        let how = self.fine_tuning.read()?;
        if !how.is_any() {
            return Ok(model);
        }
        if how.quantize.is_some() && self.amp.is_some() {
            return Err(Failure::at(&self.model, Refusal::QuantizedUnderAutocast));
        }
        fine_tuned(&model, &how).map_err(|error| Failure::at(&self.model, error))
    }

    /// Binds the loaded `model` to the sizes, precision and mode of the flags.
    pub fn bind<'a>(&self, model: &'a Model) -> Result<Bound<'a>, Failure> {
        self.bind_computing(model, None)
    }

    fn bind_computing<'a>(&self, model: &'a Model, computed: Option<ModelDtype>) -> Result<Bound<'a>, Failure> {
        let flags = SizeFlags { batch: self.batch, sequence: self.seq, sizes: self.size.clone() };
        let sizes = Sizes::select(model, &flags).map_err(|error| self.failure(error.hint(), error))?;
        let variant =
            select_variant(model, self.variant(computed)).map_err(|error| self.failure(error.hint(), error))?;
        let bound = bind(model, variant, &sizes).map_err(|error| self.failure(error.hint(), error))?;
        check_reach(&bound).map_err(|error| self.failure(Some(error.hint()), error))?;
        Ok(bound)
    }

    fn failure(&self, hint: Option<impl Into<String>>, error: impl Error + Send + Sync + 'static) -> Failure {
        Failure::at(&self.model, error).with_hint(hint)
    }
}
