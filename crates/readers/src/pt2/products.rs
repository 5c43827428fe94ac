//! Products of an archive's sizes, which the calls inside of decomposed operators need.

use hashbrown::HashMap;

use vramfit_graph::expression::Expression;
use vramfit_graph::model::{ExpressionId, Size};

/// The expressions of an archive and of products of them.
pub(super) struct Products {
    pub(super) expressions: Vec<Expression>,
    known: HashMap<Vec<Size>, Size>,
}

impl Products {
    pub(super) fn new(expressions: &[Expression]) -> Products {
        Products { expressions: expressions.to_vec(), known: HashMap::new() }
    }

    /// The product of some sizes; `None` where it is too large.
    pub(super) fn of(&mut self, sizes: &[Size]) -> Option<Size> {
        let (mut number, mut symbolic) = (1_i64, Vec::new());
        for size in sizes {
            match size {
                Size::Known(value) => number = number.checked_mul(*value)?,
                Size::Symbolic(id) => symbolic.push(*id),
            }
        }
        if symbolic.is_empty() {
            return Some(Size::Known(number));
        }
        if let ([one], 1) = (&symbolic[..], number) {
            return Some(Size::Symbolic(*one));
        }
        let mut key = vec![Size::Known(number)];
        key.extend(symbolic.iter().map(|id| Size::Symbolic(*id)));
        if let Some(size) = self.known.get(&key) {
            return Some(*size);
        }
        let factors: Vec<&Expression> = symbolic.iter().map(|id| &self.expressions[id.0 as usize]).collect();
        let product = Expression::product(&factors, number)?;
        self.expressions.push(product);
        let size = Size::Symbolic(ExpressionId(self.expressions.len() as u32 - 1));
        self.known.insert(key, size);
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_kept_once() {
        let symbol = |name: &str| ["batch", "seq"].iter().position(|it| *it == name).map(|at| at as u32);
        let expressions = ["batch", "seq+1"].map(|text| Expression::parse(text, symbol).unwrap());
        let mut products = Products::new(&expressions);
        let [batch, longer] = [0, 1].map(|id| Size::Symbolic(ExpressionId(id)));
        assert_eq!(products.of(&[Size::Known(3), Size::Known(5)]), Some(Size::Known(15)));
        assert_eq!(products.of(&[batch, Size::Known(1)]), Some(batch));
        let all = products.of(&[Size::Known(3), batch, Size::Known(2), longer]).unwrap();
        assert_eq!(products.of(&[Size::Known(6), batch, longer]), Some(all));
        assert_eq!(products.expressions.len(), 3);
        assert_eq!(products.expressions[2].evaluate(&[4, 7]), Ok(192));
        assert_eq!(products.of(&[Size::Known(i64::MAX), Size::Known(2)]), None);
    }
}
