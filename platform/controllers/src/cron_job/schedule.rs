//! When a cron job is due: five fields, or one of the words for common ones.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// How far ahead a date is looked for: the longest gap is that between two leap days around 2100, with a weekday.
const DAYS_AHEAD: i32 = 366 * 40;

/// A schedule, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether any day will do, so that only the other of the two counts.
    any_day: bool,
    any_weekday: bool,
    /// Times that are so far apart instead, in seconds.
    every: Option<i64>,
}

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no schedule: {problem}")]
pub(super) struct Invalid {
    text: String,
    problem: String,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    pub(super) fn parse(text: &str) -> Result<Self, Invalid> {
        let problem = |problem: String| Invalid { text: text.to_owned(), problem };
        let written = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        if let Some(length) = written.strip_prefix("@every ") {
            let seconds = every(length).ok_or_else(|| problem(format!("`{length}` is no duration")))?;
            return Ok(Self { every: Some(seconds), ..Self::always() });
        }
        let fields: Vec<_> = written.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(problem(format!("it has {} fields instead of 5", fields.len())));
        };
        let read = |field: &str, first: u32, last: u32, names: &[&str]| {
            bits(field, first, last, names).ok_or_else(|| problem(format!("`{field}` is not understood")))
        };
        let mut weekdays = read(weekday, 0, 7, &WEEKDAYS)?;
        // Sunday has two numbers.
        if weekdays & (1 << 7) != 0 {
            weekdays |= 1;
        }
        Ok(Self {
            minutes: read(minute, 0, 59, &[])?,
            hours: read(hour, 0, 23, &[])?,
            days: read(day, 1, 31, &[])?,
            months: read(month, 1, 12, &MONTHS)?,
            weekdays,
            any_day: day.starts_with('*') || day.starts_with('?'),
            any_weekday: weekday.starts_with('*') || weekday.starts_with('?'),
            every: None,
        })
    }

    fn always() -> Self {
        let all = u64::MAX;
        Self {
            minutes: all,
            hours: all,
            days: all,
            months: all,
            weekdays: all,
            any_day: true,
            any_weekday: true,
            every: None,
        }
    }

    /// The first time after this one. `None` if there is none: the 30th of February never comes.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if let Some(seconds) = self.every {
            let whole = Timestamp::from_second(after.as_second()).ok()?;
            return whole.checked_add(seconds.seconds()).ok();
        }
        // An hour back, because clocks may be set back: the same local time then comes twice.
        let start = zone.to_datetime(after).checked_sub(3.hours()).ok()?;
        let mut date = start.date();
        for _ in 0..DAYS_AHEAD {
            if self.takes_date(date)
                && let Some(found) = self.first_on(date, after, zone)
            {
                return Some(found);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn first_on(&self, date: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut best: Option<Timestamp> = None;
        for hour in (0..24_i8).filter(|hour| has(self.hours, i64::from(*hour))) {
            for minute in (0..60_i8).filter(|minute| has(self.minutes, i64::from(*minute))) {
                let local = DateTime::from_parts(date, Time::constant(hour, minute, 0, 0));
                for candidate in instants(local, zone) {
                    if candidate > after && best.is_none_or(|best| candidate < best) {
                        best = Some(candidate);
                    }
                }
            }
            // Even where an hour comes twice, the next one comes after both.
            if best.is_some() {
                return best;
            }
        }
        best
    }

    fn takes_date(&self, date: Date) -> bool {
        let day = has(self.days, i64::from(date.day()));
        let weekday = has(self.weekdays, i64::from(date.weekday().to_sunday_zero_offset()));
        let either = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        has(self.months, i64::from(date.month())) && either
    }
}

/// When clocks show this time: never when they skip it, twice when they are set back.
fn instants(local: DateTime, zone: &TimeZone) -> Vec<Timestamp> {
    let offsets = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset],
        AmbiguousOffset::Gap { .. } => Vec::new(),
        AmbiguousOffset::Fold { before, after } => vec![before, after],
    };
    offsets.into_iter().filter_map(|offset| offset.to_timestamp(local).ok()).collect()
}

fn has(bits: u64, number: i64) -> bool {
    u32::try_from(number).is_ok_and(|number| number < 64 && bits & (1 << number) != 0)
}

/// `1h30m` and the like, in seconds, at least one.
fn every(text: &str) -> Option<i64> {
    let duration: jiff::SignedDuration = text.trim().parse().ok()?;
    (duration.as_secs() >= 1).then_some(duration.as_secs())
}

fn bits(field: &str, first: u32, last: u32, names: &[&str]) -> Option<u64> {
    let mut all = 0;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let number = |text: &str| -> Option<u32> {
            let lower = text.to_ascii_lowercase();
            let named = names.iter().position(|name| *name == lower);
            let value = match named {
                Some(position) => u32::try_from(position).ok()? + first,
                None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
                None => return None,
            };
            (first..=last).contains(&value).then_some(value)
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (first, last),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => (number(range)?, last),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        for value in (from..=to).step_by(step) {
            all |= 1 << value;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    #[test]
    fn next_time_follows_the_fields() {
        let friday = at("2026-05-01T10:15:30Z");
        for (schedule, expected) in [
            ("* * * * *", "2026-05-01T10:16:00Z"),
            ("*/20 * * * *", "2026-05-01T10:20:00Z"),
            ("5/25 9-17 * * *", "2026-05-01T10:30:00Z"),
            ("15 10 * * *", "2026-05-02T10:15:00Z"),
            ("0 0 29 FEB ?", "2028-02-29T00:00:00Z"),
            ("0 12 * * mon,7", "2026-05-03T12:00:00Z"),
            ("0 0 13 * 5", "2026-05-08T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("@every 1h30m", "2026-05-01T11:45:30Z"),
        ] {
            let schedule = Schedule::parse(schedule).unwrap();
            assert_eq!(schedule.next(friday, &TimeZone::UTC), Some(at(expected)), "{schedule:?}");
        }
        assert_eq!(Schedule::parse("0 0 30 2 *").unwrap().next(friday, &TimeZone::UTC), None);
        for wrong in ["* * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "x * * * *", ""] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn skipped_hour_is_skipped_and_the_doubled_one_comes_twice() {
        let berlin = zone("Europe/Berlin");
        let half_past_two = Schedule::parse("30 2 * * *").unwrap();
        let spring = half_past_two.next(at("2026-03-28T12:00:00Z"), &berlin);
        assert_eq!(spring, Some(at("2026-03-30T00:30:00Z")));
        let first = half_past_two.next(at("2026-10-24T12:00:00Z"), &berlin).unwrap();
        assert_eq!(first, at("2026-10-25T00:30:00Z"));
        assert_eq!(half_past_two.next(first, &berlin), Some(at("2026-10-25T01:30:00Z")));
        let hourly = Schedule::parse("0 * * * *").unwrap();
        assert_eq!(hourly.next(at("2026-10-25T00:30:00Z"), &berlin), Some(at("2026-10-25T01:00:00Z")));
    }
}
