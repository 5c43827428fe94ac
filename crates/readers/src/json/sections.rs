//! Lists of lists of which only one may be needed.

use serde::de::SeqAccess;

use super::read::{List, Read};

/// A list of lists. Those that [`ParseState::need_only`](super::ParseState::need_only) leaves out are skipped and left empty.
pub(crate) struct Sections<Row>(pub(crate) Vec<Vec<Row>>);

impl<'de, Row: Read<'de>> Read<'de> for Sections<Row> {
    const NEEDED: &'static str = "a list";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let only = list.state.needed_only();
        let mut sections = Vec::new();
        loop {
            let section = match only.as_ref().is_none_or(|only| only.contains(&sections.len())) {
                true => list.next()?,
                false => list.skip()?.then(Vec::new),
            };
            match section {
                Some(section) => sections.push(section),
                None => return Ok(Sections(sections)),
            }
        }
    }
}
