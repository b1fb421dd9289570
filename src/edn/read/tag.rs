//! Elements whose tag the codec knows: points in time and identifiers.
//!
//! Knows what may stand behind `#inst` and `#uuid`.

use nom::Parser;
use nom::bytes::complete::take_while_m_n;
use nom::character::complete::{char, digit1, one_of};
use nom::combinator::{all_consuming, opt, value};
use nom::sequence::{pair, preceded, separated_pair};
use uuid::Uuid;

use super::lexical::{Fail, Parsed, digit};
use crate::value::{Inst, Value};

/// The element `value` with `tag`, or what was expected.
pub(super) fn tagged<'a>(tag: &'a str, value: Value<'a>) -> Result<Value<'a>, &'static str> {
    match tag {
        "inst" => {
            let read = value.as_str().and_then(|text| Some(inst(text).ok()?.1));
            read.flatten().map(Value::Inst).ok_or("a timestamp as a string, such as \"2026-01-31T12:00:00Z\"")
        }
        "uuid" => {
            let read = value.as_str().and_then(uuid);
            read.map(Value::Uuid).ok_or("five groups of hexadecimal digits as a string")
        }
        _ => Ok(Value::tagged(tag, value)),
    }
}

/// `inst = date , [ offset ]`: none where a number is out of its range.
fn inst(input: &str) -> Parsed<'_, Option<Inst>> {
    // Without its offset first: `2020-01-01:30` is January at -01:30, not its first day and a rest.
    let start = if input.ends_with('Z') { input.len() - 1 } else { input.len().saturating_sub(6) };
    let (input, offset) = match input.split_at_checked(start) {
        Some((date, end)) => match all_consuming(offset).parse(end) {
            Ok((_, offset)) => (date, offset),
            Err(_) => (input, (0, 0, false)),
        },
        None => (input, (0, 0, false)),
    };
    let (rest, (year, months)) = all_consuming(date).parse(input)?;
    let (offset_hour, offset_minute, west) = offset;

    let (month, days) = months.unwrap_or((1, None));
    let (day, hours) = days.unwrap_or((1, None));
    let (hour, minutes) = hours.unwrap_or((0, None));
    let (minute, seconds) = minutes.unwrap_or((0, None));
    let (second, fraction) = seconds.unwrap_or((0, None));

    let leap_second = i64::from(minute == 59);
    let valid = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60 + leap_second
        && offset_hour < 24
        && offset_minute < 60;
    let offset = (offset_hour * 60 + offset_minute) * if west { -60 } else { 60 };
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    let inst = Inst::new(seconds, nanos(fraction.unwrap_or_default()));
    Ok((rest, valid.then_some(inst)))
}

type Seconds<'a> = (i64, Option<&'a str>);
type Time<'a> = (i64, Option<(i64, Option<Seconds<'a>>)>);
type Date<'a> = (i64, Option<(i64, Option<(i64, Option<Time<'a>>)>)>);

/// `date = year , [ "-" , month , [ "-" , day , [ "T" , time ] ] ]`
fn date(input: &str) -> Parsed<'_, Date<'_>> {
    let dash_two = |input| preceded(char('-'), two).parse(input);
    let day = pair(dash_two, opt(preceded(char('T'), time)));
    pair(digits(4), opt(pair(dash_two, opt(day)))).parse(input)
}

/// `time = hour , [ ":" , minute , [ ":" , second , [ "." , fraction ] ] ]`
fn time(input: &str) -> Parsed<'_, Time<'_>> {
    let colon_two = |input| preceded(char(':'), two).parse(input);
    let seconds = pair(colon_two, opt(preceded(char('.'), digit1)));
    pair(two, opt(pair(colon_two, opt(seconds)))).parse(input)
}

/// `offset = "Z" | ( "+" | "-" ) , two , ":" , two`, as hours, minutes and whether it is west.
fn offset(input: &str) -> Parsed<'_, (i64, i64, bool)> {
    let numbers = pair(one_of("+-"), separated_pair(two, char(':'), two));
    let utc = value((0, 0, false), char('Z'));
    utc.or(numbers.map(|(sign, (hours, minutes))| (hours, minutes, sign == '-'))).parse(input)
}

fn two(input: &str) -> Parsed<'_, i64> {
    digits(2).parse(input)
}

fn digits<'a>(count: usize) -> impl Parser<&'a str, Output = i64, Error = Fail> {
    take_while_m_n(count, count, |c: char| c.is_ascii_digit()).map_res(|digits: &str| digits.parse())
}

/// The first nine digits of a fraction of a second.
fn nanos(fraction: &str) -> u32 {
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    digits.fold(0, |nanos, byte| nanos * 10 + u32::from(byte.wrapping_sub(b'0')))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar, for all years. A year starts with March here, so that
/// the leap day is its last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// `uuid = group , 4 * ( "-" , group )`: as in Java, short groups are filled with zeros and long ones cut.
fn uuid(text: &str) -> Option<Uuid> {
    if text.encode_utf16().count() > 36 {
        return None;
    }
    let mut groups = text.split('-');
    let mut group = |bits: u32| -> Option<u128> {
        let text = groups.next()?;
        let digits = text.strip_prefix('+').unwrap_or(text);
        if digits.is_empty() {
            return None;
        }
        let number = digits
            .chars()
            .try_fold(0_i64, |number, c| number.checked_mul(16)?.checked_add(i64::from(digit(c, 16)?)))?;
        Some(u128::from(number.unsigned_abs()) & ((1 << bits) - 1))
    };
    let bits = group(32)? << 96 | group(16)? << 80 | group(16)? << 64 | group(16)? << 48 | group(48)?;
    groups.next().is_none().then(|| Uuid::from_u128(bits))
}
