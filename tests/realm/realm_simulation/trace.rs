//! The words of a history.

use edn_bridge::realm::RealmError;

use super::engine::{Reply, Statement};
use super::truth::Fact;

pub fn shown(fact: &Fact) -> String {
    match fact {
        Fact::Acknowledged { session, first, entries, .. } => {
            let what: Vec<_> = entries.iter().map(|entry| entry.what).collect();
            format!("acknowledges s{session} from {first}: {what:?}")
        }
        Fact::Kept { session, seq, entry, .. } => {
            format!("keeps s{session} {seq} {:?} ({})", entry.what, entry.id)
        }
        other => format!("{other:?}"),
    }
}

pub fn asked(statement: &Statement) -> String {
    match statement {
        Statement::Append { session, claim, after, entries } => {
            let what: Vec<_> =
                entries.iter().map(|entry| format!("{:?} ({})", entry.what, entry.id)).collect();
            format!("append to s{session} in epoch {} after {after}: {}", claim.epoch, what.join(", "))
        }
        Statement::Settle { session, claim, known } => {
            format!("settle of s{session} in epoch {}, known {known}", claim.epoch)
        }
        Statement::SettleRead { session, known, .. } => {
            format!("settle of s{session}, second part, known {known}")
        }
        Statement::Claim { session, known } => format!("claim of s{session}, known {known}"),
        Statement::Release { session, claim } => format!("release of s{session} in epoch {}", claim.epoch),
        Statement::HandOver { session, claim, to } => {
            format!("hand-over of s{session} in epoch {} to h{to}", claim.epoch)
        }
        Statement::Renew => "renewal".into(),
        Statement::Leave => "leave".into(),
        Statement::Read { session, after } => format!("read of s{session} after {after}"),
        Statement::Post { session, request } => format!("post for s{session}: {:?}", request.wish),
        Statement::Answer { .. } => "answer to a request".into(),
    }
}

pub fn heard(answer: &Result<Reply, RealmError>) -> String {
    match answer {
        Ok(Reply::Done) => "ok".into(),
        Ok(Reply::Claimed(claim)) => {
            format!("claim of {} in epoch {} at {}", claim.session, claim.epoch, claim.tail)
        }
        Ok(Reply::Appended(tail)) => format!("appended up to {tail}"),
        Ok(Reply::Page(page)) => format!("{} entries, log ends at {}", page.entries.len(), page.tail),
        Err(error) => format!("{error:?}"),
    }
}
