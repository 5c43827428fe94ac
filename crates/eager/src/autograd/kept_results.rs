//! `create_selective_checkpoint_contexts`: results of some operators are kept in checkpointed regions, not computed again.

/// A kind of operator whose results may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ResultKind {
    /// `mm`, `addmm`, `bmm` and `baddbmm`.
    Matmul = 1,
    /// The fused kernels of `scaled_dot_product_attention`.
    Attention = 2,
    /// `convolution`.
    Convolution = 4,
}

impl ResultKind {
    /// All kinds with their names on the command line.
    pub const NAMES: [(ResultKind, &'static str); 3] = [
        (ResultKind::Matmul, "matmul"),
        (ResultKind::Attention, "attention"),
        (ResultKind::Convolution, "convolution"),
    ];

    /// The overloads of `torch.ops.aten` that it stands for.
    pub fn overloads(self) -> &'static [&'static str] {
        match self {
            ResultKind::Matmul => &["mm.default", "addmm.default", "bmm.default", "baddbmm.default"],
            ResultKind::Attention => &[
                "_scaled_dot_product_flash_attention.default",
                "_scaled_dot_product_efficient_attention.default",
                "_scaled_dot_product_cudnn_attention.default",
            ],
            ResultKind::Convolution => &["convolution.default"],
        }
    }
}

/// The kinds of operators whose results are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct KeptResults(u8);

impl KeptResults {
    /// No kind: everything is computed again.
    pub const NONE: KeptResults = KeptResults(0);

    /// These kinds.
    pub fn of(kinds: &[ResultKind]) -> KeptResults {
        KeptResults(kinds.iter().fold(0, |all, kind| all | *kind as u8))
    }

    /// Whether a kind is kept.
    pub fn contains(self, kind: ResultKind) -> bool {
        self.0 & kind as u8 != 0
    }

    /// Whether no kind is kept.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds that are kept, in the order of [`ResultKind::NAMES`].
    pub fn kinds(self) -> impl Iterator<Item = ResultKind> {
        ResultKind::NAMES.into_iter().map(|(kind, _)| kind).filter(move |kind| self.contains(*kind))
    }

    /// The kinds by name, with commas between; empty where none is kept.
    pub fn names(self) -> String {
        let names = ResultKind::NAMES.into_iter().filter(|(kind, _)| self.contains(*kind));
        names.map(|(_, name)| name).collect::<Vec<_>>().join(",")
    }
}
