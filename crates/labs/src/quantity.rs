//! Amounts of CPU and memory, as the configuration writes them and as people read them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Cores of CPU, a whole number of thousandths.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd, Serialize)]
pub struct CpuCores(f64);

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MemoryBytes(pub u64);

/// The text is no amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantityError {
    /// Of CPU.
    #[error(
        "CPU must be thousandths of a core, such as 500m, or cores with at most three decimal \
         places, such as 1.234"
    )]
    Cpu,
    /// Of memory.
    #[error("memory must be a number of bytes, with a unit such as Mi, Gi, M or G if wanted")]
    Memory,
}

/// Maximum number of cores that an amount can have.
const MAX_CORES: f64 = 1e6;
/// One GiB.
const GIB: f64 = 1_073_741_824.0;

impl CpuCores {
    /// No core.
    pub const ZERO: CpuCores = CpuCores(0.0);

    /// An amount in cores.
    ///
    /// # Errors
    /// If it is negative, too large, or has more than three decimal places.
    pub fn new(cores: f64) -> Result<CpuCores, QuantityError> {
        let milli = (cores * 1000.0).round();
        let is_exact = (milli / 1000.0 - cores).abs() < 1e-9;
        ((0.0..=MAX_CORES).contains(&cores) && is_exact)
            .then_some(CpuCores(milli / 1000.0))
            .ok_or(QuantityError::Cpu)
    }

    /// Reads `500m`, `1.5` or `2`.
    ///
    /// # Errors
    /// If the text is something else.
    pub fn parse(text: &str) -> Result<CpuCores, QuantityError> {
        let is_decimal = |text: &str| {
            let allowed = |b: u8| b.is_ascii_digit() || b == b'.';
            !text.is_empty() && text.bytes().all(allowed)
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|_| is_decimal(text));
        let cores = match text.strip_suffix('m') {
            Some(milli) if !milli.contains('.') => number(milli).map(|milli| milli / 1000.0),
            Some(_) => None,
            None => number(text),
        };
        CpuCores::new(cores.ok_or(QuantityError::Cpu)?)
    }

    /// In cores.
    pub fn cores(self) -> f64 {
        self.0
    }
}

/// Always with a decimal point: `1.0`.
impl fmt::Display for CpuCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

const PREFIXES: [char; 6] = ['k', 'm', 'g', 't', 'p', 'e'];

impl MemoryBytes {
    /// Reads a number with an optional unit: `3Gi`, `250M`, `0.75GiB`, `1073741824`.
    ///
    /// # Errors
    /// If the text is something else, or no number of bytes that Kubernetes can store.
    pub fn parse(text: &str) -> Result<MemoryBytes, QuantityError> {
        let text = text.trim();
        let end = text
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: f64 = number.parse().map_err(|_| QuantityError::Memory)?;
        let unit = unit_bytes(unit.trim_start()).ok_or(QuantityError::Memory)?;
        MemoryBytes::from_f64(number * unit)
    }

    /// An amount in GiB. Quotas are written so.
    ///
    /// # Errors
    /// If it is negative or too large.
    pub fn from_gib(gib: f64) -> Result<MemoryBytes, QuantityError> {
        MemoryBytes::from_f64(gib * GIB)
    }

    fn from_f64(bytes: f64) -> Result<MemoryBytes, QuantityError> {
        // Parts of a byte are cut off.
        (0.0..i64::MAX as f64)
            .contains(&bytes)
            .then_some(MemoryBytes(bytes as u64))
            .ok_or(QuantityError::Memory)
    }

    /// For people: `3Gi`, `6.7Gi`.
    pub fn short(self) -> String {
        let mut value = self.0 as f64;
        let mut unit = "";
        for prefix in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = prefix;
        }
        format!("{}{unit}", six_digits(value))
    }
}

fn unit_bytes(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1024.0),
        None => (unit, 1000.0_f64),
    };
    let mut letters = prefix.chars();
    let (letter, None) = (letters.next(), letters.next()) else {
        return None;
    };
    let Some(letter) = letter else {
        return unit.is_empty().then_some(1.0);
    };
    let power = PREFIXES
        .iter()
        .position(|prefix| *prefix == letter.to_ascii_lowercase())?;
    Some(base.powi(i32::try_from(power).ok()? + 1))
}

/// A number below 1024 with six digits that count.
fn six_digits(value: f64) -> String {
    let before_point = (value.max(1.0).log10().floor() as usize) + 1;
    let text = format!("{value:.*}", 6_usize.saturating_sub(before_point));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// CPU and memory together.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct LabAmounts {
    /// Cores.
    pub cpu: CpuCores,
    /// Memory.
    pub memory: MemoryBytes,
}

impl LabAmounts {
    /// As an answer shows it: cores and bytes as numbers.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({ "cpu": self.cpu.cores(), "memory": self.memory.0 })
    }
}

/// What a container may use at most, and what is reserved for it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct LabResources {
    /// At most.
    pub limits: LabAmounts,
    /// Reserved.
    pub requests: LabAmounts,
}

impl LabResources {
    /// As a container's `resources`.
    pub fn to_container(self) -> serde_json::Value {
        let texts = |amounts: LabAmounts| {
            let memory = amounts.memory.0.to_string();
            serde_json::json!({ "cpu": amounts.cpu.to_string(), "memory": memory })
        };
        serde_json::json!({ "limits": texts(self.limits), "requests": texts(self.requests) })
    }

    /// As an answer shows it.
    pub fn to_json(self) -> serde_json::Value {
        let (limits, requests) = (self.limits.to_json(), self.requests.to_json());
        serde_json::json!({ "limits": limits, "requests": requests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_has_at_most_three_decimal_places() {
        for (text, shown) in [
            ("500m", "0.5"),
            ("1.234", "1.234"),
            ("2", "2.0"),
            ("0.25", "0.25"),
        ] {
            assert_eq!(CpuCores::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "", "m", "1.5m", "1.2345", "-1", "1e3", "two", "1000001", "inf",
        ] {
            assert_eq!(CpuCores::parse(text), Err(QuantityError::Cpu), "{text}");
        }
    }

    #[test]
    fn memory_has_binary_and_decimal_units() {
        for (text, bytes) in [
            ("1Gi", 1 << 30),
            ("0.75Gi", 805_306_368),
            ("6.7Gi", 7_194_070_220),
            ("1073741824", 1 << 30),
            ("64ki", 65536),
            ("250M", 250_000_000),
            ("1 GiB", 1 << 30),
            ("12B", 12),
        ] {
            assert_eq!(MemoryBytes::parse(text), Ok(MemoryBytes(bytes)), "{text}");
        }
        for text in [
            "", "24D", "Gi", "-1Gi", "1Gib", "1.2.3", "9Ei", "1ii", "1Mimi",
        ] {
            assert_eq!(
                MemoryBytes::parse(text),
                Err(QuantityError::Memory),
                "{text}"
            );
        }
    }

    #[test]
    fn memory_is_shown_in_the_largest_unit() {
        for (bytes, shown) in [
            (3_221_225_472, "3Gi"),
            (7_194_070_220, "6.7Gi"),
            (512, "512"),
            (1536, "1.5Ki"),
            (123_456_789, "117.738Mi"),
            (1_048_575, "1024Ki"),
        ] {
            assert_eq!(MemoryBytes(bytes).short(), shown);
        }
    }
}
