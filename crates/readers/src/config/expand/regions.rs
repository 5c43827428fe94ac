//! Parts of a list that belong to layers, and where these are once there are more or fewer layers.

use crate::config::order::{Order, Referrer};

/// Where the layers are in a list, once or several times over.
#[derive(Clone)]
pub(super) struct Regions<'a> {
    zones: Vec<Zone>,
    order: &'a Order,
}

/// Something of each layer of the template, one after the other.
#[derive(Clone)]
struct Zone {
    /// Where each layer of the template begins, and where the last one ends.
    bounds: Vec<u32>,
    /// Where each layer will begin, and where the last one will end.
    starts: Vec<u32>,
}

impl Zone {
    fn size(&self, layer: u32) -> u32 {
        self.bounds[layer as usize + 1] - self.bounds[layer as usize]
    }

    fn end(&self) -> u32 {
        self.bounds[self.bounds.len() - 1]
    }

    fn layer(&self, old: u32) -> Option<u32> {
        let at = self.bounds.windows(2).position(|bounds| (bounds[0]..bounds[1]).contains(&old))?;
        Some(at as u32)
    }
}

impl<'a> Regions<'a> {
    /// The bounds of each zone, in order: where the template's layers begin, and where the last one ends.
    pub(super) fn new(bounds: Vec<Vec<u32>>, order: &'a Order) -> Option<Self> {
        let mut zones: Vec<Zone> = Vec::new();
        let mut shift = 0_i64;
        for bounds in bounds {
            if bounds.len() as u32 != order.count() + 1 || !bounds.is_sorted() {
                return None;
            }
            let mut zone = Zone { bounds, starts: Vec::new() };
            let mut next = i64::from(zone.bounds[0]) + shift;
            for (_, source) in order.layers() {
                zone.starts.push(u32::try_from(next).ok()?);
                next += i64::from(zone.size(source));
            }
            zone.starts.push(u32::try_from(next).ok()?);
            shift = next - i64::from(zone.end());
            zones.push(zone);
        }
        Some(Self { zones, order })
    }

    pub(super) fn order(&self) -> &'a Order {
        self.order
    }

    /// The zones as they are in another list, which has `at(bound)` where this one has `bound`.
    pub(super) fn elsewhere(&self, at: impl Fn(u32) -> u32) -> Option<Self> {
        let bounds = |zone: &Zone| zone.bounds.iter().map(|bound| at(*bound)).collect();
        Self::new(self.zones.iter().map(bounds).collect(), self.order)
    }

    /// Which of the template's layers it belongs to.
    pub(super) fn layer(&self, old: u32) -> Option<u32> {
        self.zones.iter().find_map(|zone| zone.layer(old))
    }

    /// The number that `old` has now, if this refers to it.
    pub(super) fn map(&self, old: u32, referrer: Referrer) -> Option<u32> {
        match self.layer(old) {
            Some(layer) => self.in_layer(old, self.order.number(layer, referrer)?),
            None => {
                let before = self.zones.iter().rev().find(|zone| zone.end() <= old);
                let shift = |zone: &Zone| i64::from(zone.starts[zone.starts.len() - 1]) - i64::from(zone.end());
                u32::try_from(i64::from(old) + before.map_or(0, shift)).ok()
            }
        }
    }

    /// The number of what is in one of the template's layers, in layer `number` of those there will be. `None` where that one is
    /// not made of as much.
    pub(super) fn in_layer(&self, old: u32, number: u32) -> Option<u32> {
        let (zone, layer) = self.zones.iter().find_map(|zone| Some((zone, zone.layer(old)?)))?;
        let (_, source) = self.order.layers().nth(number as usize)?;
        let is_alike = zone.size(source) == zone.size(layer);
        is_alike.then(|| zone.starts[number as usize] + (old - zone.bounds[layer as usize]))
    }

    /// `list` with its layers repeated; `change` adapts an item to what it then belongs to.
    pub(super) fn relaid<T, U>(&self, list: &[T], change: impl Fn(&T, Referrer) -> Option<U>) -> Option<Vec<U>> {
        let mut made = Vec::new();
        let mut add = |from: u32, to: u32, referrer: Referrer| -> Option<()> {
            for item in list.get(from as usize..to as usize)? {
                made.push(change(item, referrer)?);
            }
            Some(())
        };
        let mut at = 0;
        for zone in &self.zones {
            add(at, zone.bounds[0], Referrer::Outside)?;
            for (number, source) in self.order.layers() {
                let bounds = &zone.bounds[source as usize..];
                add(bounds[0], bounds[1], Referrer::Layer { number, source })?;
            }
            at = zone.end();
        }
        add(at, list.len() as u32, Referrer::Outside)?;
        Some(made)
    }
}
