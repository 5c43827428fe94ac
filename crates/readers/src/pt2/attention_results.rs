//! Makes views of attention's results possible on every device.
//!
//! `scaled_dot_product_attention` gives its result other strides on the CPU than some of its kernels on the GPU. Where the
//! result is contiguous in the order that the code asks for, `.contiguous()` returns the tensor itself, and the tracer leaves
//! it out. On the GPU the view behind it then needs the copy. The code runs there, so each view of such a result is read as
//! `reshape`, which copies only where it must.

use super::flatten::{Flat, Item};

/// Reads each view of an attention's result, permuted or not, as `reshape`.
pub(super) fn allow_views(flat: &mut Flat) {
    let mut is_attention = vec![false; flat.values.len()];
    let mut items = std::mem::take(&mut flat.items);
    for item in &mut items {
        let Item::Call(call) = item else { continue };
        let mut is_of_attention = false;
        call.each_tensor(&mut |tensor| is_of_attention |= is_attention[tensor.0 as usize]);
        let makes_attention = match flat.operators.name(call.operator) {
            "aten.scaled_dot_product_attention.default" => true,
            "aten.permute.default" | "aten.transpose.int" => is_of_attention,
            "aten.view.default" if is_of_attention => {
                call.operator = flat.operators.number("aten.reshape.default");
                false
            }
            _ => false,
        };
        for result in call.results.iter().flatten() {
            is_attention[result.0 as usize] = makes_attention;
        }
    }
    flat.items = items;
}
