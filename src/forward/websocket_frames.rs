//! Walks the frame headers of a WebSocket (RFC 6455 section 5.2) to detect data frames.
//!
//! The payload is neither read nor changed; the state is a few bytes.

/// Follows one direction of a tunnel.
#[derive(Debug, Default)]
pub struct FrameWalker {
    header: [u8; 14],
    have: usize,
    payload_left: u64,
    closed: bool,
}

impl FrameWalker {
    /// Scans the next bytes of the direction. `true`: some belong to a data frame (continuation,
    /// text or binary), not only to ping, pong or close.
    pub fn feed(&mut self, mut bytes: &[u8]) -> bool {
        let mut data = false;
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let take = usize::try_from(self.payload_left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                data |= self.is_data();
                self.payload_left -= take as u64;
                bytes = &bytes[take..];
                continue;
            }
            if self.have >= self.header_len() {
                self.have = 0;
            }
            self.header[self.have] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            if self.have >= 2 && self.have == self.header_len() {
                self.payload_left = self.payload_len();
                self.closed |= self.header[0] & 0x0f == 0x8;
                data |= self.is_data();
            }
        }
        data
    }

    /// Whether a Close frame has passed.
    pub fn saw_close(&self) -> bool {
        self.closed
    }

    /// Whether the direction is between two frames, where a control frame may be inserted.
    pub fn is_between_frames(&self) -> bool {
        self.payload_left == 0 && (self.have == 0 || self.have >= self.header_len())
    }

    /// The number of these bytes that belong to the current frame.
    pub fn rest_of_frame(&self, bytes: &[u8]) -> usize {
        let mut ahead = FrameWalker {
            header: self.header,
            ..*self
        };
        for at in 0..bytes.len() {
            if ahead.is_between_frames() {
                return at;
            }
            match usize::try_from(ahead.payload_left).unwrap_or(usize::MAX) {
                0 => {
                    ahead.feed(&bytes[at..=at]);
                }
                left => return at + left.min(bytes.len() - at),
            }
        }
        bytes.len()
    }

    fn is_data(&self) -> bool {
        matches!(self.header[0] & 0x0f, 0x0..=0x2)
    }

    fn extended(&self) -> usize {
        match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        }
    }

    /// The length of the frame header, known after its first two bytes.
    fn header_len(&self) -> usize {
        if self.have < 2 {
            return 2;
        }
        let mask = if self.header[1] & 0x80 == 0 { 0 } else { 4 };
        2 + self.extended() + mask
    }

    fn payload_len(&self) -> u64 {
        match self.extended() {
            0 => u64::from(self.header[1] & 0x7f),
            bytes => self.header[2..2 + bytes]
                .iter()
                .fold(0, |sum, byte| (sum << 8) | u64::from(*byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, length: usize) -> Vec<u8> {
        let mut out = vec![0x80 | opcode];
        match length {
            0..=125 => out.push(0x80 | length as u8),
            126..=65535 => {
                out.push(0x80 | 126);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&[1, 2, 3, 4]);
        out.extend(std::iter::repeat_n(0x81, length));
        out
    }

    #[test]
    fn wherever_a_frame_is_cut_its_end_is_found() {
        for length in [0, 1, 125, 126, 65535, 65536] {
            let (whole, next) = (frame(0x2, length), frame(0x1, 5));
            for cut in [1, 2, 3, 5, 6, 7, 13, 14, whole.len() / 2, whole.len()] {
                let cut = cut.min(whole.len());
                let mut walk = FrameWalker::default();
                assert!(walk.is_between_frames());
                walk.feed(&whole[..cut]);
                assert_eq!(
                    walk.is_between_frames(),
                    cut == whole.len(),
                    "{length}, cut at {cut}"
                );
                let rest = [&whole[cut..], &next].concat();
                assert_eq!(
                    walk.rest_of_frame(&rest),
                    whole.len() - cut,
                    "{length}, cut at {cut}"
                );
                assert_eq!(
                    walk.rest_of_frame(&rest[..rest.len().min(1)]),
                    1.min(whole.len() - cut)
                );
            }
        }
    }

    #[test]
    fn data_frames_count_and_control_frames_do_not_however_they_are_cut() {
        for size in [1, 2, 3, 7, 64, 100_000] {
            let mut walk = FrameWalker::default();
            let quiet = [frame(0x9, 125), frame(0xa, 0), frame(0x9, 3)].concat();
            assert!(
                !quiet.chunks(size).any(|part| walk.feed(part)),
                "pings in parts of {size}"
            );
            for length in [0, 1, 125, 126, 65535, 65536] {
                let loud = frame(0x1, length);
                let seen = loud.chunks(size).filter(|part| walk.feed(part)).count();
                assert!(seen > 0, "{length}");
                assert!(
                    !quiet.chunks(size).any(|part| walk.feed(part)),
                    "after {length} in parts of {size}"
                );
            }
        }
    }
}
