//! Sizes as they are typed: `500K`, `5MB`, `1GiB`.

/// Parses a size. `K`, `M` and `G` count in thousands, `Ki` and so on in 1024s. Without a
/// unit, `5` might be meant as megabytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    read(text.trim())
        .filter(|size| *size > 0)
        .ok_or_else(|| format!("`{text}` is not a size; write it like 500K, 5MB or 1GiB"))
}

fn read(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = Some(unit.trim().to_ascii_lowercase()).filter(|unit| !unit.is_empty())?;
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = unit.strip_suffix('i').map_or((unit, 1000), |prefix| (prefix, 1024));
    let power = ["", "k", "m", "g"].iter().position(|known| *known == prefix)?;
    let factor = u64::checked_pow(base, u32::try_from(power).ok()?)?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_usual_units() {
        for (text, size) in [
            ("1B", 1),
            ("500K", 500_000),
            ("5MB", 5_000_000),
            (" 5 mb ", 5_000_000),
            ("1GiB", 1 << 30),
            ("2Ki", 2048),
        ] {
            assert_eq!(parse(text), Ok(size), "{text}");
        }
        for bad in ["", "0B", "5", "5000000", "-1M", "1.5M", "5 apples", "99999999999G", "MB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
