//! Loads and binds the model that the command line names.

use std::error::Error;

use vramfit_eager::reach::check_reach;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};

use crate::arguments::{ModeKind, ModelAt, RunSettings};
use crate::built_in::load_for;
use crate::failure::Failure;

impl RunSettings {
    /// The loaded model as one of the PyTorch that `--torch` names.
    pub fn with_torch(&self, model: Model) -> Model {
        Model { torch: self.torch.map(|release| release.to_string()).or(model.torch), ..model }
    }
}

impl ModelAt {
    /// The precision and mode of the flags.
    fn variant(&self) -> VariantFlags {
        VariantFlags {
            dtype: self.dtype.map(Into::into),
            amp: self.amp.map(Into::into),
            is_eval: self.mode == ModeKind::Eval,
            has_grad: self.grad,
        }
    }

    /// Loads the model for a command that uses no other precision and mode.
    pub fn load(&self) -> Result<Model, Failure> {
        load_for(&self.model, self.variant())
    }

    /// Binds the loaded `model` to the sizes, precision and mode of the flags.
    pub fn bind<'a>(&self, model: &'a Model) -> Result<Bound<'a>, Failure> {
        let flags = SizeFlags { batch: self.batch, sequence: self.seq, sizes: self.size.clone() };
        let sizes = Sizes::select(model, &flags).map_err(|error| self.failure(error.hint(), error))?;
        let variant = select_variant(model, self.variant()).map_err(|error| self.failure(error.hint(), error))?;
        let bound = bind(model, variant, &sizes).map_err(|error| self.failure(error.hint(), error))?;
        check_reach(&bound).map_err(|error| self.failure(Some(error.hint()), error))?;
        Ok(bound)
    }

    fn failure(&self, hint: Option<impl Into<String>>, error: impl Error + Send + Sync + 'static) -> Failure {
        Failure::at(&self.model, error).with_hint(hint)
    }
}
