//! The table of operators: one entry for each ATen operator, next to the rules of its family.
//!
//! An entry carries everything that is known of the operator ([`Facts`]): its memory rule, what its kernels launch, its
//! floating-point operations, its time, what autocast does with it, what it does to its arguments, how positions pass
//! through it. Readers look an operator up by name once ([`find`]); everybody else asks by [`OperatorId`] ([`facts`]) and
//! never compares names.
//!
//! A memory rule mirrors what the operator does on CUDA: it allocates what the kernels allocate, in their order, and frees
//! it where C++ does. An operator without one is named in the answer, which becomes a range.
//!
//! [`OperatorId`]: vramfit_graph::model::OperatorId

mod activation;
mod aliases;
mod attention;
mod batch_norm;
mod bitsandbytes;
mod call;
mod complex_numbers;
mod convolution;
mod copy;
mod counting;
mod derivatives;
mod dropout;
mod embedding;
mod factory;
mod facts;
mod foreach;
mod function;
mod group_norm;
mod indexing;
mod joining;
mod linear_algebra;
mod loss;
mod loss_head;
mod normalization;
mod padding;
mod pointwise;
mod pooling;
mod product;
mod rearranging;
mod recurrent;
mod reduction;
mod resize;
mod sampling;
mod script;
mod slices;
mod softmax;
mod sparse;
mod spectral;
mod table;
mod unknown;
mod view;
mod vision;
mod weight_norm;
mod windows;

pub use attention::{WrittenAttention, WrittenMask, find_written_attention};
pub(crate) use call::layout_of;
pub use call::{Call, Outcome, Unmodelled};
pub(crate) use copy::copied_to_host;
pub use facts::{
    Activation, Autocast, Effect, Evaluation, Extent, Facts, FlopFormula, Flops, Greatest, HidesBase, Keeps, Launch,
    Library, MemoryRule, Overwrite, Promotion, Reads, Rule, Samples, ScriptCall, Time, Work,
};
pub use foreach::foreach_norms;
pub use loss_head::{Head, LossHead, NoHead, find_head};
pub(crate) use loss_head::{
    LigerInputs, chunk_lengths, chunks_of, fused_loss, loss_of_chunk, loss_of_chunks, rows_and_labels,
};
pub(crate) use product::is_view_of_product;
pub use recurrent::is_flattened;
pub(crate) use slices::{copied_slices, seen_again};
pub use table::{all, facts, find, named};
pub(crate) use view::{made_leaf, view_strides};
