//! Which layer of a template each layer of a model is made from.

/// The layers of a model, in order.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// How many layers the template has.
    count: u32,
    /// The one that each layer is made from.
    sources: Vec<u32>,
}

/// What refers to a number.
#[derive(Clone, Copy)]
pub(super) enum Referrer {
    /// What comes before the first layer or after the last one.
    Outside,
    /// A layer, made from one of the template's.
    Layer { number: u32, source: u32 },
}

impl Order {
    /// Layers that are all alike, two at least, from a template of three: the first and the last one stay, the middle one is
    /// repeated or left out.
    pub(super) fn alike(layers: u32) -> Option<Self> {
        let middle = layers.checked_sub(2)? as usize;
        let sources = std::iter::once(0).chain(std::iter::repeat_n(1, middle)).chain([2]).collect();
        Some(Self { count: 3, sources })
    }

    /// Layers of several kinds: each is made from one of its kind that follows the same kind, the first and the last from the
    /// template's. `None` where the template does not have such a one.
    pub(super) fn of_kinds(template: &[bool], wanted: &[bool]) -> Option<Self> {
        let context = |kinds: &[bool], at: usize| {
            let before = at.checked_sub(1).map(|before| kinds[before]);
            (before, kinds[at], at + 1 == kinds.len())
        };
        let source = |at| (0..template.len()).find(|source| context(template, *source) == context(wanted, at));
        let sources: Option<Vec<u32>> = (0..wanted.len()).map(|at| source(at).map(|source| source as u32)).collect();
        Some(Self { count: template.len() as u32, sources: sources? })
    }

    /// How many layers the template has.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The number of each layer, and which one of the template it is made from.
    pub(super) fn layers(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.sources.iter().copied())
    }

    /// Which layer is meant by one of the template, if this refers to it.
    pub(super) fn number(&self, layer: u32, referrer: Referrer) -> Option<u32> {
        match referrer {
            Referrer::Outside if layer == 0 => Some(0),
            // What follows the last layer may free what the one before has made.
            Referrer::Outside => (self.sources.len() as u32 + layer).checked_sub(self.count),
            Referrer::Layer { number, source } if layer == source => Some(number),
            Referrer::Layer { number, source } if layer + 1 == source => number.checked_sub(1),
            Referrer::Layer { .. } => None,
        }
    }

    /// The layers that are made from one of the template.
    pub(super) fn made_from(&self, source: u32) -> Vec<u32> {
        self.layers().filter(|(_, found)| *found == source).map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_made_from_one_of_its_kind_after_the_same_kind() {
        let (window, full) = (true, false);
        let template = [window, window, full, window, window];
        let made = |wanted: &[bool]| Order::of_kinds(&template, wanted).map(|order| order.sources);
        let wanted = [window, window, window, full, window, window, window, full, window, window];
        assert_eq!(made(&wanted), Some(vec![0, 1, 1, 2, 3, 1, 1, 2, 3, 4]));
        assert_eq!(made(&[full, window]), None);
        assert_eq!(made(&[window, full]), None);
        assert_eq!(Order::alike(2).map(|order| order.sources), Some(vec![0, 2]));
        assert!(Order::alike(1).is_none());
    }
}
