//! Which backend PyTorch 2.11 chooses (`sdp_utils.cpp`): cuDNN where it prefers that, FlashAttention, the memory-efficient
//! kernel, else plain operators; the first whose conditions hold on a GPU of that compute capability.

use vramfit_catalogue::ComputeCapability;
use vramfit_graph::dtype::Dtype;

use super::inputs::{Inputs, Sizes};

/// Who computes the attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Cudnn,
    Flash,
    Efficient,
    Math,
}

/// The widest head that cuDNN and FlashAttention take.
const WIDEST: i64 = 256;

/// The widest head for which FlashAttention's backward pass runs on every GPU; on small ones it runs again above
/// [`WIDEST_WITHOUT_SPLIT`], without dropout.
const WIDEST_FLASH_BACKWARD: i64 = 192;
const WIDEST_WITHOUT_SPLIT: i64 = 224;

/// The backend for a call.
pub(super) fn backend(inputs: &Inputs<'_>, compute: ComputeCapability) -> Backend {
    let Some(sizes) = Sizes::of(inputs.query, inputs.key, inputs.value) else { return Backend::Math };
    if !takes_fused_kernels(inputs, sizes) {
        Backend::Math
    } else if compute.prefers_cudnn_attention() && takes_cudnn(inputs, sizes) {
        Backend::Cudnn
    } else if compute.has_flash_attention() && takes_flash(inputs, sizes, compute) {
        Backend::Flash
    } else if compute.has_efficient_attention() && takes_efficient(inputs, sizes, compute) {
        Backend::Efficient
    } else {
        Backend::Math
    }
}

/// What every fused kernel asks for: one batch size, sequences that are not empty, one element type.
fn takes_fused_kernels(inputs: &Inputs<'_>, sizes: Sizes) -> bool {
    let (query, key, value) = (inputs.query, inputs.key, inputs.value);
    key.shape()[0] == sizes.batch
        && value.shape()[0] == sizes.batch
        && sizes.queries != 0
        && sizes.keys != 0
        && key.dtype() == query.dtype()
        && value.dtype() == query.dtype()
}

/// Whether the last dimension of all tensors has stride one.
fn has_dense_rows(inputs: &Inputs<'_>, ignores_width_of_one: bool) -> bool {
    let ends_dense = |tensor: &crate::autograd::Tensor| tensor.layout().strides.last() == Some(&1);
    let are_dense = [inputs.query, inputs.key, inputs.value].into_iter().all(ends_dense);
    let is_thin = ignores_width_of_one && inputs.query.shape().last() == Some(&1);
    (are_dense || is_thin) && inputs.mask.is_none_or(ends_dense)
}

fn has_same_heads(sizes: Sizes) -> bool {
    sizes.heads == sizes.key_heads && sizes.heads == sizes.value_heads
}

fn takes_cudnn(inputs: &Inputs<'_>, sizes: Sizes) -> bool {
    let heads_agree = if inputs.is_grouped {
        sizes.heads % sizes.key_heads == 0 && sizes.heads % sizes.value_heads == 0
    } else {
        has_same_heads(sizes)
    };
    let fits = |width: i64| width <= WIDEST && width % 8 == 0;
    inputs.query.dtype().is_half()
        && takes_mask(inputs, sizes)
        && has_dense_rows(inputs, true)
        && heads_agree
        && fits(sizes.width)
        && fits(sizes.value_width)
        && sizes.keys != 1
        && !(sizes.queries == 1 && inputs.dropout != 0.0)
}

/// Whether cuDNN takes the mask: two or four dimensions, each whole or one, and no gradient.
fn takes_mask(inputs: &Inputs<'_>, sizes: Sizes) -> bool {
    let Some(mask) = inputs.mask else { return true };
    let is = |size: i64, whole: i64| size == whole || size == 1;
    if mask.requires_grad() {
        return false;
    }
    match *mask.shape() {
        [rows, columns] => is(rows, sizes.queries) && is(columns, sizes.keys),
        [batch, heads, rows, columns] => {
            is(batch, sizes.batch) && is(heads, sizes.heads) && is(rows, sizes.queries) && is(columns, sizes.keys)
        }
        _ => false,
    }
}

fn takes_flash(inputs: &Inputs<'_>, sizes: Sizes, compute: ComputeCapability) -> bool {
    let is_too_wide_for_backward = inputs.wants_gradient
        && !compute.has_wide_flash_backward()
        && sizes.width > WIDEST_FLASH_BACKWARD
        && (inputs.dropout != 0.0 || sizes.width <= WIDEST_WITHOUT_SPLIT);
    let heads_agree = if inputs.is_grouped {
        sizes.key_heads == sizes.value_heads && sizes.heads % sizes.key_heads == 0
    } else {
        has_same_heads(sizes)
    };
    inputs.query.dtype().is_half()
        && inputs.mask.is_none()
        && sizes.width == inputs.key.shape()[3]
        && sizes.width == sizes.value_width
        && sizes.width <= WIDEST
        && !is_too_wide_for_backward
        && !(inputs.is_causal && sizes.queries != sizes.keys)
        && heads_agree
        && has_dense_rows(inputs, true)
}

fn takes_efficient(inputs: &Inputs<'_>, sizes: Sizes, compute: ComputeCapability) -> bool {
    // Tensor cores load 16 bytes at once: in half precision from Volta on, in single from Ampere on.
    let alignment = match inputs.query.dtype() {
        Dtype::Bfloat16 if compute.major < 8 => return false,
        Dtype::Float32 if compute.major >= 8 => 4,
        Dtype::Float16 | Dtype::Bfloat16 if compute.major >= 7 => 8,
        Dtype::Float32 | Dtype::Float16 => 1,
        _ => return false,
    };
    sizes.width == inputs.key.shape()[3]
        && sizes.width > 0
        && sizes.value_width > 0
        && sizes.width % alignment == 0
        && sizes.value_width % alignment == 0
        && has_same_heads(sizes)
        && has_dense_rows(inputs, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::Tensor;
    use vramfit_graph::layout::Layout;

    /// The backend for training with heads of `width` on a GPU of compute capability `major.minor`.
    fn chosen(dtype: Dtype, width: i64, dropout: f64, (major, minor): (u8, u8)) -> Backend {
        let tensor = Tensor::on_host(Layout::contiguous(dtype, &[2, 4, 16, width]));
        let (query, key, value) = (&tensor, &tensor, &tensor);
        let inputs =
            Inputs { query, key, value, mask: None, dropout, is_causal: true, is_grouped: false, wants_gradient: true };
        backend(&inputs, ComputeCapability::new(major, minor))
    }

    /// The table of `docs/by-architecture.md`.
    #[test]
    fn every_compute_capability_takes_what_it_has() {
        use Backend::{Cudnn, Efficient, Flash, Math};
        for (gpu, half, bfloat) in [
            ((6, 1), Efficient, Math),
            ((7, 0), Efficient, Math),
            ((7, 5), Efficient, Math),
            ((8, 0), Flash, Flash),
            ((8, 6), Flash, Flash),
            ((8, 9), Flash, Flash),
            ((9, 0), Cudnn, Cudnn),
            ((10, 0), Cudnn, Cudnn),
            ((10, 3), Cudnn, Cudnn),
            ((12, 0), Flash, Flash),
        ] {
            assert_eq!(chosen(Dtype::Float16, 64, 0.0, gpu), half, "{gpu:?}");
            assert_eq!(chosen(Dtype::Bfloat16, 64, 0.0, gpu), bfloat, "{gpu:?}");
            assert_eq!(chosen(Dtype::Float32, 64, 0.0, gpu), Efficient, "{gpu:?}");
        }
    }

    #[test]
    fn wide_heads_do_not_train_with_flash_attention_on_small_gpus() {
        assert_eq!(chosen(Dtype::Float16, 208, 0.0, (8, 0)), Backend::Flash);
        assert_eq!(chosen(Dtype::Float16, 208, 0.0, (8, 9)), Backend::Efficient);
        assert_eq!(chosen(Dtype::Float16, 256, 0.0, (8, 9)), Backend::Flash);
        assert_eq!(chosen(Dtype::Float16, 256, 0.5, (8, 9)), Backend::Efficient);
    }

    #[test]
    fn single_precision_needs_aligned_heads_only_where_tensor_cores_load_them() {
        assert_eq!(chosen(Dtype::Float32, 6, 0.0, (7, 5)), Backend::Efficient);
        assert_eq!(chosen(Dtype::Float32, 6, 0.0, (8, 0)), Backend::Math);
        assert_eq!(chosen(Dtype::Float32, 64, 0.0, (9, 0)), Backend::Efficient);
    }
}
