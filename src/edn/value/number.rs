//! Numbers and times that Rust has no plain type for.
//!
//! Knows arithmetic of digits; knows no EDN text.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};

/// A ratio in lowest terms, its denominator at least 2.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: BigInt,
    denominator: BigInt,
}

impl Ratio {
    /// `numerator / denominator` in lowest terms: a ratio, or the integer that it comes to.
    /// None if `denominator` is 0.
    pub fn reduce(numerator: BigInt, denominator: BigInt) -> Option<Result<Ratio, BigInt>> {
        if denominator.sign() == Sign::NoSign {
            return None;
        }
        let divisor = greatest_common_divisor(&numerator, &denominator);
        let sign = if denominator.sign() == Sign::Minus { BigInt::from(-1) } else { BigInt::from(1) };
        let numerator = numerator / &divisor * &sign;
        let denominator = denominator / &divisor * &sign;
        let whole = denominator == BigInt::from(1);
        Some(if whole { Err(numerator) } else { Ok(Ratio { numerator, denominator }) })
    }

    /// What stands above the stroke, with the sign.
    pub fn numerator(&self) -> &BigInt {
        &self.numerator
    }

    /// What stands below the stroke, positive.
    pub fn denominator(&self) -> &BigInt {
        &self.denominator
    }
}

/// Euclid's algorithm; never 0 where one of the two is not.
fn greatest_common_divisor(a: &BigInt, b: &BigInt) -> BigInt {
    let (mut a, mut b) = (a.magnitude().clone(), b.magnitude().clone());
    while b.bits() != 0 {
        let rest = a % &b;
        a = std::mem::replace(&mut b, rest);
    }
    a.into()
}

/// The significant digits of a decimal and the power of ten of the last one, so that equal decimals are
/// written alike: 1.0M is 1.00M. Digits are compared, nothing is scaled up: `1E999999M` costs three digits.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Digits {
    digits: String,
    exponent: i64,
}

impl Digits {
    pub(super) fn of(decimal: &BigDecimal) -> Self {
        let (digits, scale) = decimal.as_bigint_and_exponent();
        let mut digits = digits.to_string();
        let significant = digits.trim_end_matches('0').len();
        if significant == 0 {
            return Digits { digits: String::new(), exponent: 0 };
        }
        let zeros = i64::try_from(digits.len() - significant).unwrap_or(i64::MAX);
        digits.truncate(significant);
        Digits { digits, exponent: zeros.saturating_sub(scale) }
    }
}

/// A point in time: seconds since 1970-01-01T00:00:00Z and nanoseconds into the second.
///
/// Instants are equal when they are in the same millisecond: that is what the reference reader keeps of
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    seconds: i64,
    nanos: u32,
}

impl Inst {
    /// The point `nanos` (below 1,000,000,000) after `seconds`.
    pub fn new(seconds: i64, nanos: u32) -> Self {
        Inst { seconds, nanos: nanos.min(999_999_999) }
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds into the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// Milliseconds since the epoch, rounded down.
    pub fn millis(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

impl PartialEq for Inst {
    fn eq(&self, other: &Self) -> bool {
        self.millis() == other.millis()
    }
}
impl Eq for Inst {}
impl std::hash::Hash for Inst {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.millis().hash(state);
    }
}
