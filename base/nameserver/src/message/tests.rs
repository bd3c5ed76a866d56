use std::net::Ipv4Addr;

use hickory_proto::rr::rdata::{A, NS, SRV};
use hickory_proto::rr::{Name, RData, RecordType};

use super::*;

fn name(text: &str) -> Name {
    let labels = text.split('.').filter(|label| !label.is_empty());
    Name::from_labels(labels.map(str::as_bytes)).unwrap()
}

fn question(asked: &str, kind: RecordType, size: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, u8::from(size.is_some())];
    bytes.extend_from_slice(&name(asked).to_bytes().unwrap());
    bytes.extend_from_slice(&u16::from(kind).to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    if let Some(size) = size {
        bytes.extend_from_slice(&opt(size));
    }
    bytes
}

fn opt(size: u16) -> Vec<u8> {
    [&[0, 0, 41], size.to_be_bytes().as_slice(), &[0; 6]].concat()
}

fn record(name: &Name, data: RData) -> Record {
    Record::from_rdata(name.clone(), 5, data)
}

fn addresses(name: &Name, count: u8) -> Answer {
    let one = |number| record(name, RData::A(A::new(10, 0, 0, number)));
    Answer::found((0..count).map(one).collect(), Vec::new())
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[test]
fn an_answer_repeats_the_question_and_shortens_names() {
    let query = Query::read(&question("Web.Shop.example", RecordType::A, None)).unwrap();
    let asked = query.question.name().clone();
    assert_eq!(
        (asked.to_string().as_str(), query.question.query_type()),
        ("Web.Shop.example.", RecordType::A)
    );
    let reply = query.reply(&addresses(&asked, 1), query.datagram()).unwrap();
    let expected = [
        &[0x12, 0x34, 0x85, 0x00, 0, 1, 0, 1, 0, 0, 0, 0][..],
        b"\x03Web\x04Shop\x07example\x00\x00\x01\x00\x01",
        // The name is at the twelfth byte.
        &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 0, 0, 0],
    ];
    assert_eq!(reply, expected.concat());

    let target = name("db.Shop.example");
    let port = RData::SRV(SRV::new(0, 100, 80, target.clone()));
    let address = record(&target, RData::A(A(Ipv4Addr::LOCALHOST)));
    let answer = Answer::found(vec![record(&asked, port)], vec![address.clone()]);
    let reply = query.reply(&answer, query.datagram()).unwrap();
    let after = &reply[reply.len() - 39..];
    let whole = [&[0, 0, 0, 100, 0, 80][..], b"\x02db\x04Shop\x07example\x00"].concat();
    assert_eq!(after[..23], whole, "a target is never shortened");
    assert_eq!(after[23] & 0xc0, 0xc0, "other names are");

    let elsewhere = Answer::referral(vec![record(&asked, RData::NS(NS(target)))], vec![address]);
    let reply = query.reply(&elsewhere, query.datagram()).unwrap();
    assert_eq!(reply[2..4], [0x81, 0x00], "who refers to others does not answer for the name");
    assert_eq!(reply[6..12], [0, 0, 0, 1, 0, 1]);
}

#[test]
fn what_does_not_fit_is_left_out_and_said_to_be() {
    let long = format!("{0}.{0}.{0}.example", "long".repeat(15));
    for asked in ["many.example", &long] {
        let name = name(asked);
        for (size, limit) in [(None, 512), (Some(4096), 1232), (Some(100), 512)] {
            let query = Query::read(&question(asked, RecordType::A, size)).unwrap();
            let reply = query.reply(&addresses(&name, 200), query.datagram()).unwrap();
            assert!(reply.len() <= limit && reply.len() > limit - 27, "{}", reply.len());
            assert_ne!(word(&reply, 2) & 0x0200, 0);
            let records = usize::from(word(&reply, 6));
            let opt = usize::from(word(&reply, 10)) * 11;
            let before = Header::LEN + query.question.to_bytes().unwrap().len();
            assert_eq!(reply.len(), before + records * 16 + opt, "every record is whole");
            let edns = Message::from_vec(&reply).unwrap().edns;
            assert_eq!(edns.map(|edns| edns.max_payload()), size.map(|_| LARGEST));
        }
        let query = Query::read(&question(asked, RecordType::A, None)).unwrap();
        let reply = query.reply(&addresses(&name, 200), OVER_TCP).unwrap();
        assert_eq!((word(&reply, 2) & 0x0200, word(&reply, 6)), (0, 200));
    }
}

#[test]
fn what_is_no_question_is_refused_or_ignored() {
    let malformed = Unreadable::Answered(0x1234, OpCode::Query, ResponseCode::FormErr);
    let good = question("a.example", RecordType::A, Some(1232));
    assert!(Query::read(&good).is_ok());
    for length in 0..good.len() {
        let unreadable = Query::read(&good[..length]).unwrap_err();
        if length < 4 {
            assert_eq!(unreadable, Unreadable::Ignored);
            assert_eq!(unreadable.reply().unwrap(), None);
        } else {
            assert_eq!(unreadable, malformed, "{length}");
            let reply = [0x12, 0x34, 0x80, 0x01, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(unreadable.reply().unwrap().unwrap(), reply);
        }
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Query::read(&bytes)
    };
    assert_eq!(changed(2, 0x81).unwrap_err(), Unreadable::Ignored, "an answer");
    for other in [0x08, 0x10, 0x20, 0x28, 0x78] {
        let refused = changed(2, other).unwrap_err();
        assert!(matches!(refused, Unreadable::Answered(0x1234, _, ResponseCode::NotImp)), "{other:x}");
        let reply = refused.reply().unwrap().unwrap();
        assert_eq!(reply[2..4], [0x80 | other, 0x04], "what was asked for is in the answer");
    }
    assert_eq!(changed(5, 0).unwrap_err(), malformed);
    assert_eq!(changed(5, 2).unwrap_err(), malformed);
    assert_eq!(changed(12, 0xc0).unwrap_err(), malformed);
    let shortened = [&question(".", RecordType::A, None)[..Header::LEN], &[0xc0, 4, 0, 1, 0, 1]].concat();
    assert_eq!(Query::read(&shortened).unwrap_err(), malformed, "by what is in the header");
    let mut twice = [good.clone(), opt(1232)].concat();
    twice[11] = 2;
    assert_eq!(Query::read(&twice).unwrap_err(), malformed, "two sizes");
}

/// A generator of numbers that is the same every time.
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    }
}

#[test]
fn whatever_is_sent_is_answered_or_ignored() {
    let mut next = numbers(0x9e37_79b9_7f4a_7c15);
    let samples = [
        question("web.shop.svc.cluster.local", RecordType::A, Some(1232)),
        question("_http._tcp.web.shop.svc.cluster.local", RecordType::SRV, None),
        question(".", RecordType::ANY, Some(0)),
    ];
    for round in 0..50_000_u64 {
        let mut bytes = samples[(round % 3) as usize].clone();
        for _ in 0..next() % 8 {
            match next() % 4 {
                0 => bytes.truncate((next() as usize) % (bytes.len() + 1)),
                1 => bytes.push(next() as u8),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = (next() as usize) % bytes.len();
                    bytes[at] = next() as u8;
                }
            }
        }
        match Query::read(&bytes) {
            Ok(query) => {
                let asked = query.question.name();
                let reply = query.reply(&addresses(asked, 40), query.datagram()).unwrap();
                assert!(reply.len() <= query.datagram() && reply[..2] == bytes[..2]);
                // What was read is what was asked.
                let end = Header::LEN + query.question.to_bytes().unwrap().len();
                assert_eq!(reply[Header::LEN..end], bytes[Header::LEN..end]);
                let read = Message::from_vec(&reply).unwrap();
                assert!(read.answers.iter().all(|record| record.name == *asked));
            }
            Err(unreadable) => drop(unreadable.reply().unwrap()),
        }
    }
}
