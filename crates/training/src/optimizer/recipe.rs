//! Which optimizer, and with which arguments.

/// Which optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `torch.optim.SGD`.
    Sgd,
    /// `torch.optim.SGD` with momentum.
    Momentum,
    /// `torch.optim.SGD` with Nesterov's momentum.
    Nesterov,
    /// `torch.optim.Adam`.
    Adam,
    /// `torch.optim.AdamW`.
    AdamW,
    /// `torch.optim.Adam` with `amsgrad=True`.
    Amsgrad,
    /// `torch.optim.RMSprop`.
    RmsProp,
    /// `torch.optim.Adagrad`.
    Adagrad,
    /// `torch.optim.Adadelta`.
    Adadelta,
    /// `torch.optim.Adamax`.
    Adamax,
    /// `torch.optim.NAdam`.
    NAdam,
    /// `torch.optim.RAdam`.
    RAdam,
    /// `torch.optim.Adafactor`.
    Adafactor,
    /// `torch.optim.Muon` for the matrices of hidden layers, `torch.optim.AdamW` for the other weights.
    Muon,
    /// `transformers.optimization.Adafactor`, as transformers' `Trainer` creates it.
    AdafactorHf,
    /// `bitsandbytes.optim.AdamW8bit`.
    AdamW8bit,
    /// `bitsandbytes.optim.Adam8bit`.
    Adam8bit,
    /// `bitsandbytes.optim.Lion8bit`.
    Lion8bit,
    /// `bitsandbytes.optim.Lion`, whose state has 32 bits.
    Lion,
    /// `bitsandbytes.optim.PagedAdamW8bit`.
    PagedAdamW8bit,
    /// `bitsandbytes.optim.PagedAdamW`, whose states have 32 bits.
    PagedAdamW,
    /// `bitsandbytes.optim.PagedLion8bit`.
    PagedLion8bit,
    /// `bitsandbytes.optim.PagedLion`, whose state has 32 bits.
    PagedLion,
    /// No optimizer: the gradients stay.
    None,
}

/// Whose optimizer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `torch.optim`.
    Torch,
    /// `bitsandbytes.optim`.
    Bitsandbytes,
    /// `transformers.optimization`.
    Transformers,
}

impl Library {
    /// The module that has the optimizer.
    pub fn module(self) -> &'static str {
        match self {
            Library::Torch => "torch.optim",
            Library::Bitsandbytes => "bitsandbytes.optim",
            Library::Transformers => "transformers.optimization",
        }
    }
}

impl Kind {
    /// All optimizers with their names on the command line.
    pub const NAMES: [(&'static str, Kind); 24] = [
        ("adamw", Kind::AdamW),
        ("adam", Kind::Adam),
        ("sgd", Kind::Sgd),
        ("momentum", Kind::Momentum),
        ("nesterov", Kind::Nesterov),
        ("amsgrad", Kind::Amsgrad),
        ("rmsprop", Kind::RmsProp),
        ("adagrad", Kind::Adagrad),
        ("adadelta", Kind::Adadelta),
        ("adamax", Kind::Adamax),
        ("nadam", Kind::NAdam),
        ("radam", Kind::RAdam),
        ("adafactor", Kind::Adafactor),
        ("muon", Kind::Muon),
        ("adafactor-hf", Kind::AdafactorHf),
        ("adamw8bit", Kind::AdamW8bit),
        ("adam8bit", Kind::Adam8bit),
        ("lion8bit", Kind::Lion8bit),
        ("lion", Kind::Lion),
        ("paged-adamw8bit", Kind::PagedAdamW8bit),
        ("paged-adamw", Kind::PagedAdamW),
        ("paged-lion8bit", Kind::PagedLion8bit),
        ("paged-lion", Kind::PagedLion),
        ("none", Kind::None),
    ];

    /// The optimizer with this name on the command line.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whose optimizer it is.
    pub fn library(self) -> Library {
        match self {
            Kind::AdafactorHf => Library::Transformers,
            _ if self.quantized().is_some() => Library::Bitsandbytes,
            _ => Library::Torch,
        }
    }

    /// What an optimizer of bitsandbytes keeps; `None` for all others.
    pub fn quantized(self) -> Option<Quantized> {
        let (states, has_8_bits, is_paged) = match self {
            Kind::AdamW8bit | Kind::Adam8bit => (2, true, false),
            Kind::Lion8bit => (1, true, false),
            Kind::Lion => (1, false, false),
            Kind::PagedAdamW8bit => (2, true, true),
            Kind::PagedAdamW => (2, false, true),
            Kind::PagedLion8bit => (1, true, true),
            Kind::PagedLion => (1, false, true),
            _ => return None,
        };
        Some(Quantized { states, has_8_bits, is_paged })
    }

    /// Whether a weight decay is added to the gradients, which takes memory. The others decay the weights directly.
    pub fn adds_decay_to_gradients(self) -> bool {
        !matches!(self, Kind::AdamW | Kind::Adafactor | Kind::None) && !self.has_one_implementation()
    }

    /// Whether its default implementation updates one weight after another.
    pub fn goes_weight_by_weight(self) -> bool {
        self == Kind::Adafactor || self.has_one_implementation()
    }

    /// Whether its library has it in one implementation only.
    fn has_one_implementation(self) -> bool {
        self == Kind::Muon || self.library() != Library::Torch
    }
}

/// The state that an optimizer of bitsandbytes keeps for each weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantized {
    /// How many state tensors.
    pub states: usize,
    /// Whether large weights have states of 8 bits instead of 32.
    pub has_8_bits: bool,
    /// Whether the states of large weights are in managed memory.
    pub is_paged: bool,
}

/// Which implementation of an optimizer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Implementation {
    /// The one `torch.optim` chooses on a GPU.
    #[default]
    Default,
    /// `foreach=True`: operators over lists of tensors.
    Foreach,
    /// `fused=True`: one kernel for all.
    Fused,
    /// `foreach=False`: one weight after another.
    ForLoop,
}

impl Implementation {
    /// All implementations with their names on the command line.
    pub const NAMES: [(&'static str, Implementation); 4] = [
        ("default", Implementation::Default),
        ("foreach", Implementation::Foreach),
        ("fused", Implementation::Fused),
        ("for-loop", Implementation::ForLoop),
    ];

    /// The implementation with this name on the command line.
    pub fn named(name: &str) -> Option<Implementation> {
        Implementation::NAMES.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Implementation::NAMES.iter().find(|(_, found)| *found == self).map_or("", |(name, _)| name)
    }
}

/// An optimizer and those of its arguments that change its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Which optimizer.
    pub kind: Kind,
    /// Which implementation of it.
    pub implementation: Implementation,
    /// Whether weight decay is added to the gradients. AdamW's decoupled decay allocates nothing and does not count.
    pub adds_decay: bool,
}

impl Recipe {
    /// An optimizer with the default arguments of `torch.optim`.
    pub fn new(kind: Kind, implementation: Implementation) -> Recipe {
        Recipe { kind, implementation, adds_decay: false }
    }

    /// Whether the optimizer's library has this implementation of it.
    pub fn exists(self) -> bool {
        use Kind::{Adam, AdamW, Amsgrad, Momentum, Nesterov, None, Sgd};
        if self.kind.has_one_implementation() {
            return self.implementation == Implementation::Default;
        }
        self.implementation != Implementation::Fused
            || matches!(self.kind, Sgd | Momentum | Nesterov | Adam | AdamW | Amsgrad | None)
    }

    /// Whether the update kernel itself divides by the scale of a `GradScaler`.
    pub(super) fn scales_itself(self) -> bool {
        self.implementation == Implementation::Fused && self.kind != Kind::None
    }
}
