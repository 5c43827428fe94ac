//! An installed cuDNN, as far as answers depend on it.

use vramfit_catalogue::Gpu;
use vramfit_cudnn::convolution::LiveAnswers;

/// Who can be asked for the workspaces of convolutions.
pub trait Cudnn: Sync {
    /// Answers for a GPU; `None` if there is no cuDNN, or none of its newer versions runs on the GPU.
    fn answers_for(&self, gpu: &Gpu) -> Option<&'static dyn LiveAnswers>;

    /// That a library that the user named is of no use for a GPU; `None` where it is, or where none was named.
    fn not_asked_about(&self, gpu: &Gpu) -> Option<String>;
}

/// No cuDNN: workspaces are from the built-in tables.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInTables;

impl Cudnn for BuiltInTables {
    fn answers_for(&self, _: &Gpu) -> Option<&'static dyn LiveAnswers> {
        None
    }

    fn not_asked_about(&self, _: &Gpu) -> Option<String> {
        None
    }
}
