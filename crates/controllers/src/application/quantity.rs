//! Amounts of a resource in the canonical text of Kubernetes. The API server stores this form, and
//! what is applied must equal what is stored.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount of CPU, in thousandths of a core.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MilliCpu(pub u64);

/// An amount of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Memory(pub u64);

impl MilliCpu {
    /// An amount in cores. `None` if it is negative, too large, or less than a thousandth.
    pub fn from_cores(cores: f64) -> Option<MilliCpu> {
        let milli = (cores * 1000.0).round();
        // At most a million cores, so the conversion is exact.
        (1.0..=1e9)
            .contains(&milli)
            .then_some(MilliCpu(milli as u64))
    }

    /// Kubernetes' text: `2`, `0.5` or `500m`.
    pub fn parse(text: &str) -> Option<MilliCpu> {
        match text.strip_suffix('m') {
            Some(milli) => milli.parse().ok().map(MilliCpu),
            None => text.parse().ok().and_then(MilliCpu::from_cores),
        }
    }

    /// In cores, for people.
    pub fn cores(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            milli if milli % 1000 == 0 => write!(f, "{}", milli / 1000),
            milli => write!(f, "{milli}m"),
        }
    }
}

const BINARY: [(&str, u64); 6] = [
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
];
const DECIMAL: [(&str, u64); 5] = [
    ("P", 1_000_000_000_000_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1000),
];

impl Memory {
    /// Kubernetes' text, such as `512Mi`, `1.5Gi`, `4G` or a number of bytes.
    pub fn parse(text: &str) -> Option<Memory> {
        let unit = BINARY
            .iter()
            .chain(&DECIMAL)
            .copied()
            .find_map(|(suffix, bytes)| {
                let number = text.strip_suffix(suffix)?;
                Some((number, bytes))
            });
        let (number, unit) = unit.unwrap_or((text, 1));
        Memory::multiply(number, unit)
    }

    /// PrimeHub's text of an instance type: `G`, `M` and `K` mean the binary units too.
    pub fn parse_instance_type(text: &str) -> Option<Memory> {
        let text = text.strip_suffix('i').unwrap_or(text);
        let unit = match text.chars().last()? {
            'T' => 1 << 40,
            'G' => 1 << 30,
            'M' => 1 << 20,
            'K' | 'k' => 1 << 10,
            _ => return Memory::multiply(text, 1),
        };
        Memory::multiply(&text[..text.len() - 1], unit)
    }

    fn multiply(number: &str, unit: u64) -> Option<Memory> {
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(unit).map(Memory);
        }
        let bytes = number.parse::<f64>().ok()? * unit as f64;
        // Below 2^53 every whole number is exact.
        (0.0..=9e15)
            .contains(&bytes)
            .then_some(Memory(bytes.ceil() as u64))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = BINARY
            .iter()
            .find(|(_, unit)| self.0 != 0 && self.0.is_multiple_of(*unit));
        match largest {
            Some((suffix, unit)) => write!(f, "{}{suffix}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_has_the_shortest_text() {
        for (cores, wanted) in [(1.0, "1"), (0.5, "500m"), (1.5, "1500m"), (2.0, "2")] {
            let parsed = MilliCpu::from_cores(cores).map(|cpu| cpu.to_string());
            assert_eq!(parsed.as_deref(), Some(wanted));
        }
        assert_eq!(MilliCpu::parse("1500m"), MilliCpu::parse("1.5"));
        for bad in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(MilliCpu::from_cores(bad), None, "{bad}");
        }
    }

    #[test]
    fn memory_has_the_largest_unit_that_divides_it() {
        for (text, wanted) in [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Mi", "512Mi"),
            ("1000", "1000"),
            ("4G", "3906250Ki"),
            ("0", "0"),
        ] {
            let parsed = Memory::parse(text).map(|memory| memory.to_string());
            assert_eq!(parsed.as_deref(), Some(wanted), "{text}");
        }
        for bad in ["", "Gi", "-1Gi", "1X", "99999999999Ei"] {
            assert_eq!(Memory::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn units_of_an_instance_type_are_binary() {
        for (text, wanted) in [
            ("8G", "8Gi"),
            ("8Gi", "8Gi"),
            ("512M", "512Mi"),
            ("100K", "100Ki"),
            ("1.5G", "1536Mi"),
            ("100", "100"),
        ] {
            let parsed = Memory::parse_instance_type(text).map(|memory| memory.to_string());
            assert_eq!(parsed.as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(Memory::parse_instance_type("many"), None);
    }
}
