//! Grows one tree (`growing.py` says of what): `rustc -O grow.rs`, then `grow IN OUT SEED COARSE_WEIGHT FEATURES_PER_SPLIT SMALLEST_LEAF`.
//!
//! IN has five numbers (features, shapes, classes, coarse forms, exact forms), then the features, one after another, of all shapes in 16 bits each,
//! then each shape's class, coarse and exact form; OUT gets feature (-1 for a leaf), threshold, node for what is above and form of each node.

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// The members in the order of a feature, into `room`; false where they all have the same.
fn sorted(column: &[u16], members: &[u32], room: &mut [u32], counts: &mut [u32]) -> bool {
    let value = |member: u32| usize::from(column[member as usize]);
    let (mut least, mut most) = (usize::MAX, 0);
    for &member in members {
        least = least.min(value(member));
        most = most.max(value(member));
    }
    if least == most {
        return false;
    }
    if most - least < 4 * members.len() + 64 {
        for &member in members {
            counts[value(member) - least] += 1;
        }
        let mut so_far = 0;
        for count in &mut counts[..=most - least] {
            so_far += std::mem::replace(count, so_far);
        }
        for &member in members {
            let place = &mut counts[value(member) - least];
            room[*place as usize] = member;
            *place += 1;
        }
        counts[..=most - least].fill(0);
    } else {
        room[..members.len()].copy_from_slice(members);
        room[..members.len()].sort_unstable_by_key(|&member| value(member));
    }
    true
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments[place].parse::<f64>().expect("a number");
    let (coarse_weight, features_per_split, smallest_leaf) = (number(3), number(4) as usize, number(5) as usize);
    let bytes = std::fs::read(&arguments[0]).expect("the file of shapes");
    let head = words(&bytes[..20]);
    let (feature_count, count) = (head[0] as usize, head[1] as usize);
    let features: Vec<u16> = bytes[20..20 + 2 * feature_count * count].chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]])).collect();
    let rest = words(&bytes[20 + 2 * feature_count * count..]);
    let (name, coarse, exact) = (&rest[..count], &rest[count..2 * count], &rest[2 * count..3 * count]);
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(number(2) as u64 + 1));

    let (mut members, mut room): (Vec<u32>, Vec<u32>) = ((0..count as u32).collect(), vec![0; count]);
    let mut nodes: Vec<[i32; 4]> = Vec::new();
    let (mut left, mut right) = (vec![0i64; head[2] as usize], vec![0i64; head[2] as usize]);
    let (mut left_coarse, mut right_coarse) = (vec![0i64; head[3] as usize], vec![0i64; head[3] as usize]);
    let (mut votes, mut counts) = (vec![0i64; head[4] as usize], vec![0u32; 65537]);
    let mut order: Vec<usize> = (0..feature_count).collect();
    let mut waiting = vec![(0, count, None::<usize>)];
    while let Some((low, high, parent)) = waiting.pop() {
        let node = nodes.len();
        nodes.push([-1, 0, 0, 0]);
        if let Some(parent) = parent {
            nodes[parent][2] = node as i32;
        }
        let size = high - low;
        let all = &members[low..high];
        let is_pure = all.iter().all(|&member| coarse[member as usize] == coarse[all[0] as usize]);
        let mut found = None;
        if !is_pure && size >= 2 * smallest_leaf {
            for &member in all {
                right[name[member as usize] as usize] += 1;
                right_coarse[coarse[member as usize] as usize] += 1;
            }
            let (mut squares, mut coarse_squares) = (0.0, 0.0);
            for &member in all {
                squares += right[name[member as usize] as usize] as f64;
                coarse_squares += right_coarse[coarse[member as usize] as usize] as f64;
            }
            let mut best = (squares + coarse_weight * coarse_squares) / size as f64 + 1e-9 * size as f64;
            for place in 0..feature_count {
                let other = place + chance.below(feature_count - place);
                order.swap(place, other);
            }
            let mut tried = 0;
            for &one in &order {
                let column = &features[one * count..(one + 1) * count];
                if !sorted(column, all, &mut room[low..high], &mut counts) {
                    continue;
                }
                tried += 1;
                let ordered = &room[low..high];
                let (mut here, mut coarse_here, mut there, mut coarse_there) = (0.0, 0.0, squares, coarse_squares);
                for (place, &member) in ordered[..size - 1].iter().enumerate() {
                    let (class, form) = (name[member as usize] as usize, coarse[member as usize] as usize);
                    here += (2 * left[class] + 1) as f64;
                    there -= (2 * right[class] - 1) as f64;
                    coarse_here += (2 * left_coarse[form] + 1) as f64;
                    coarse_there -= (2 * right_coarse[form] - 1) as f64;
                    left[class] += 1;
                    right[class] -= 1;
                    left_coarse[form] += 1;
                    right_coarse[form] -= 1;
                    let before = place + 1;
                    let (value, next) = (column[member as usize], column[ordered[before] as usize]);
                    if value != next && before >= smallest_leaf && size - before >= smallest_leaf {
                        let score = (here + coarse_weight * coarse_here) / before as f64
                            + (there + coarse_weight * coarse_there) / (size - before) as f64;
                        if score > best {
                            best = score;
                            found = Some((one, (i32::from(value) + i32::from(next)) / 2));
                        }
                    }
                }
                for &member in &ordered[..size - 1] {
                    let (class, form) = (name[member as usize] as usize, coarse[member as usize] as usize);
                    right[class] += 1;
                    left[class] = 0;
                    right_coarse[form] += 1;
                    left_coarse[form] = 0;
                }
                if tried >= features_per_split && found.is_some() {
                    break;
                }
            }
            for &member in all {
                right[name[member as usize] as usize] = 0;
                right_coarse[coarse[member as usize] as usize] = 0;
            }
        }
        let Some((one, threshold)) = found else {
            let mut most = 0;
            for &member in all {
                let form = exact[member as usize] as usize;
                votes[form] += 1;
                if votes[form] > most {
                    most = votes[form];
                    nodes[node][3] = form as i32;
                }
            }
            for &member in all {
                votes[exact[member as usize] as usize] = 0;
            }
            continue;
        };
        let (mut first, mut last) = (low, high);
        for place in low..high {
            let member = members[place];
            if i32::from(features[one * count + member as usize]) <= threshold {
                room[first] = member;
                first += 1;
            } else {
                last -= 1;
                room[last] = member;
            }
        }
        members[low..high].copy_from_slice(&room[low..high]);
        nodes[node][0] = one as i32;
        nodes[node][1] = threshold;
        waiting.push((first, high, Some(node)));
        waiting.push((low, first, None));
    }
    let mut out = Vec::with_capacity(16 * nodes.len());
    for column in 0..4 {
        out.extend(nodes.iter().flat_map(|node| node[column].to_le_bytes()));
    }
    std::fs::write(&arguments[1], out).expect("the file of the tree");
}
