//! Numbers.
//!
//! Knows the ways to write one. Small integers and floats take a fast path; all others are rare.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use nom::branch::alt;
use nom::bytes::complete::{tag, take_while_m_n};
use nom::character::complete::{alphanumeric1, char, digit0, digit1, hex_digit1, oct_digit1, one_of};
use nom::combinator::{all_consuming, cut, opt, recognize, value, verify};
use nom::sequence::{pair, preceded, separated_pair, terminated};
use nom::{IResult, Parser};

use super::lexical::{Fail, Parsed, after, first, number_word};
use crate::ErrorKind;
use crate::value::{Ratio, Value};

/// `number = [ sign ] , ( integer | float | ratio )`, up to the end of the word.
pub(super) fn number(input: &str, max_digits: usize) -> Parsed<'_, Value<'_>> {
    let Digits { negative, int, rest, count } = digits(input);
    if let (Some(b'.'), Some(int)) = (first(rest), int)
        && let Some((float, rest)) = short_float(int, after(rest, 1), count)
    {
        return Ok((rest, Value::Float(if negative { -float } else { float })));
    }
    match small_integer(input) {
        Some((rest, int)) => Ok((rest, Value::Int(int))),
        None => any_number(input, max_digits),
    }
}

/// What follows an integer of up to 18 digits, and it: most numbers are such.
#[inline(always)]
pub(super) fn small_integer(input: &str) -> Option<(&str, i64)> {
    let Digits { negative, int, rest, .. } = digits(input);
    ends(rest).then_some((rest, if negative { -int? } else { int? }))
}

/// The digits that a number starts with.
struct Digits<'a> {
    negative: bool,
    /// None where there are no digits, and where a zero before them may make them octal.
    int: Option<i64>,
    rest: &'a str,
    count: usize,
}

#[inline(always)]
fn digits(input: &str) -> Digits<'_> {
    let (negative, start) = match *input.as_bytes() {
        [b'-', ..] => (true, 1),
        [b'+', ..] => (false, 1),
        _ => (false, 0),
    };
    // Up to 18 digits fit 64 bits whatever they are.
    let mut int: i64 = 0;
    let mut end = start;
    for byte in input.as_bytes().iter().skip(start).take(18) {
        let value = byte.wrapping_sub(b'0');
        if value > 9 {
            break;
        }
        int = int * 10 + i64::from(value);
        end += 1;
    }
    let count = end - start;
    let leading_zero = input.as_bytes().get(start) == Some(&b'0') && count > 1;
    Digits { negative, int: (count > 0 && !leading_zero).then_some(int), rest: after(input, end), count }
}

/// Does a number end before `rest`, as far as the usual goes?
#[inline(always)]
fn ends(rest: &str) -> bool {
    matches!(first(rest), None | Some(b' ' | b'}' | b']' | b')' | b'\n' | b','))
}

/// The float of `whole`, which has `count` digits, and of the digits that `fraction` starts with, where there
/// are so few that both their number and the power of ten are floats themselves: one division is then right to
/// the last bit.
#[inline]
fn short_float(whole: i64, fraction: &str, count: usize) -> Option<(f64, &str)> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let mut int = whole;
    let mut end = 0;
    for byte in fraction.as_bytes().iter().take(15_usize.checked_sub(count)?) {
        let value = byte.wrapping_sub(b'0');
        if value > 9 {
            break;
        }
        int = int * 10 + i64::from(value);
        end += 1;
    }
    let rest = after(fraction, end);
    #[expect(clippy::cast_precision_loss, reason = "at most 15 digits")]
    let int = int as f64;
    ends(rest).then_some((int / POWERS.get(end)?, rest))
}

#[inline(never)]
fn any_number(input: &str, max_digits: usize) -> Parsed<'_, Value<'_>> {
    /// What may stand around the digits: signs, a point, zeros behind it, an exponent, a suffix.
    const FRAME: usize = 64;

    if let Some(short) = short_exact(input, max_digits) {
        return Ok(short);
    }
    let word = number_word(input);
    if word.text.len() > max_digits.saturating_add(FRAME) {
        return too_large(input);
    }
    let (unsigned, sign) = opt(one_of::<_, _, Fail>("+-")).parse(word.text)?;
    let negative = sign == Some('-');
    let read: Read<'_, _> = alt((
        all_consuming(|input| integer(input, negative, max_digits)),
        all_consuming(|input| float(input, negative, max_digits)),
        all_consuming(|input| ratio(input, negative, max_digits)),
    ))
    .parse(unsigned);
    match read {
        Ok((_, value)) => Ok((word.rest, value)),
        Err(nom::Err::Failure(fail)) => Fail::at(input, fail.kind, fail.expected),
        Err(_) => Fail::at(input, ErrorKind::InvalidNumber, "a number"),
    }
}

/// A whole number with `N` and a decimal, where they have few digits: most that are written are such, and a line
/// may be full of them.
fn short_exact(input: &str, max_digits: usize) -> Option<(&str, Value<'_>)> {
    /// Any number of so many digits fits 64 bits.
    const SHORT: usize = 18;
    let Digits { negative, int, rest, count } = digits(input);
    let mut int = int.filter(|_| max_digits >= SHORT)?;
    let mut scale = 0;
    let mut rest = rest;
    let point = first(rest) == Some(b'.');
    if point {
        let fraction = after(rest, 1);
        for byte in fraction.bytes().take(SHORT.checked_sub(count)?).take_while(u8::is_ascii_digit) {
            int = int * 10 + i64::from(byte.wrapping_sub(b'0'));
            scale += 1;
        }
        rest = after(fraction, scale);
    }
    let suffix = first(rest)?;
    let rest = after(rest, 1);
    if !ends(rest) {
        return None;
    }
    let int = BigInt::from(if negative { -int } else { int });
    match suffix {
        b'N' if !point => Some((rest, Value::from(int))),
        b'M' => Some((rest, Value::from(BigDecimal::new(int, i64::try_from(scale).ok()?)))),
        _ => None,
    }
}

type Read<'a, T> = IResult<&'a str, T, Fail>;

/// The bound is one of decimal digits, so that each number that is read can be read again as it is written,
/// whatever its radix was.
fn too_large<T>(input: &str) -> Result<T, nom::Err<Fail>> {
    Fail::at(input, ErrorKind::TooLarge, "a shorter number")
}

/// How many of the digits count: zeros before them do not.
fn significant(digits: &str) -> usize {
    digits.trim_start_matches('0').len()
}

/// `integer = ( "0" | decimal_digits | hexadecimal | octal ) , [ "N" ] | radix`
fn integer(input: &str, negative: bool, max_digits: usize) -> Read<'_, Value<'_>> {
    let not_zero = verify(digit1, |digits: &str| !digits.starts_with('0'));
    let digits = alt((
        (value(16, (char('0'), one_of("xX"))), hex_digit1),
        (value(10, tag("")), not_zero),
        (value(8, char('0')), oct_digit1),
        (value(10, tag("")), tag("0")),
    ));
    let with_suffix = pair(digits, opt(char('N')));
    let (rest, ((radix, digits), suffix)) =
        alt((radix.map(|it| (it, None)), all_consuming(with_suffix))).parse(input)?;
    let Some(int) = BigInt::parse_bytes(digits.as_bytes(), radix) else {
        return Fail::at(input, ErrorKind::InvalidNumber, "digits below the radix");
    };
    // A bit is at most 0.30103 decimal digits.
    let most = match radix {
        10 => digits.len(),
        _ => usize::try_from(int.bits().saturating_mul(30_103) / 100_000)
            .unwrap_or(usize::MAX)
            .saturating_add(1),
    };
    if most > max_digits {
        return too_large(input);
    }
    let int = if negative { -int } else { int };
    let value = match i64::try_from(&int) {
        Ok(int) if suffix.is_none() => Value::Int(int),
        _ => Value::from(int),
    };
    Ok((rest, value))
}

/// `radix = radix_number , ( "r" | "R" ) , alphanumeric , { alphanumeric }`: an `N` at the end is a digit.
fn radix(input: &str) -> Read<'_, (u32, &str)> {
    let base =
        take_while_m_n(1, 2, |c: char| c.is_ascii_digit()).map_res(|digits: &str| match digits.parse() {
            Ok(base @ 2..=36_u32) if !digits.starts_with('0') => Ok(base),
            _ => Err(()),
        });
    separated_pair(base, one_of("rR"), cut(all_consuming(alphanumeric1))).parse(input)
}

/// `float = digits , [ "." , [ digits ] ] , [ exponent ] , [ "M" ]`: a decimal where it ends with `M`.
fn float(input: &str, negative: bool, max_digits: usize) -> Read<'_, Value<'_>> {
    let fraction = preceded(char('.'), digit0);
    let (rest, (whole, fraction, exponent, suffix)) =
        (digit1, opt(fraction), opt(exponent), opt(char('M'))).parse(input)?;
    if whole.len() > 1 && whole.starts_with('0') && whole.len() == input.len() {
        return Fail::at(input, ErrorKind::InvalidNumber, "octal digits after the leading 0");
    }
    let fraction_digits = fraction.unwrap_or_default();
    let counted = match significant(whole) {
        0 => significant(fraction_digits),
        count => count.saturating_add(fraction_digits.len()),
    };
    if counted > max_digits {
        return too_large(input);
    }
    if suffix.is_some() {
        let (rest, decimal) = (rest, decimal(whole, fraction_digits, exponent, negative));
        return match decimal {
            Some(decimal) => Ok((rest, Value::from(decimal))),
            None => Fail::at(input, ErrorKind::InvalidNumber, "an exponent of 32 bits"),
        };
    }
    let text = input.get(..input.len() - rest.len()).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(float) => Ok((rest, Value::Float(if negative { -float } else { float }))),
        Err(_) => Fail::at(input, ErrorKind::InvalidNumber, "a float"),
    }
}

/// `exponent = ( "e" | "E" ) , [ sign ] , digits`
fn exponent(input: &str) -> Read<'_, &str> {
    preceded(one_of("eE"), recognize(pair(opt(one_of("+-")), digit1))).parse(input)
}

/// A decimal of `whole` and `fraction` times ten to the `exponent`. Exponent and scale have 32 bits each.
fn decimal(whole: &str, fraction: &str, exponent: Option<&str>, negative: bool) -> Option<BigDecimal> {
    let exponent = match exponent {
        None => 0,
        Some(text) => i64::from(text.parse::<i32>().ok()?),
    };
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    i32::try_from(scale).ok()?;
    let int = BigInt::parse_bytes([whole, fraction].concat().as_bytes(), 10)?;
    Some(BigDecimal::new(if negative { -int } else { int }, scale))
}

/// `ratio = digits , "/" , digits`
fn ratio(input: &str, negative: bool, max_digits: usize) -> Read<'_, Value<'_>> {
    let (rest, (above, below)) = pair(terminated(digit1, char('/')), digit1).parse(input)?;
    if significant(above).saturating_add(significant(below)) > max_digits {
        return too_large(input);
    }
    let int = |digits: &str| BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_default();
    let (above, below) = (int(above), int(below));
    // The reference reader keeps an integer big where one of the two was.
    let big = i64::try_from(&above).is_err() || i64::try_from(&below).is_err();
    let value = match Ratio::reduce(if negative { -above } else { above }, below) {
        Some(Ok(ratio)) => Value::from(ratio),
        Some(Err(int)) => match i64::try_from(&int) {
            Ok(int) if !big => Value::Int(int),
            _ => Value::from(int),
        },
        None => return Fail::at(input, ErrorKind::InvalidNumber, "a ratio whose denominator is not 0"),
    };
    Ok((rest, value))
}
