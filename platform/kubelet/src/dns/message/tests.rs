use super::*;

fn question(name: &str, kind: u16, size: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, u8::from(size.is_some())];
    bytes.extend_from_slice(Name::parse(name).unwrap().wire());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    if let Some(size) = size {
        bytes.extend_from_slice(&[0, 0, 41]);
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(&[0; 6]);
    }
    bytes
}

fn addresses(name: &Name, count: u8) -> Answer {
    let one =
        |number| Record { name: name.clone(), seconds: 5, data: Data::A(Ipv4Addr::new(10, 0, 0, number)) };
    Answer {
        code: Code::Fine,
        answers: (0..count).map(one).collect(),
        authority: Vec::new(),
        additional: Vec::new(),
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[test]
fn an_answer_repeats_the_question_and_shortens_names() {
    let query = Query::read(&question("Web.Shop.example", kind::A, None)).unwrap();
    assert_eq!((query.name.to_string().as_str(), query.kind), ("Web.Shop.example.", kind::A));
    let name = Name::parse("web.shop.EXAMPLE").unwrap();
    let reply = query.reply(&addresses(&name, 1), query.datagram());
    let expected = [
        &[0x12, 0x34, 0x85, 0x00, 0, 1, 0, 1, 0, 0, 0, 0][..],
        b"\x03Web\x04Shop\x07example\x00\x00\x01\x00\x01",
        // The name is at the twelfth byte.
        &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 0, 0, 0],
    ];
    assert_eq!(reply, expected.concat());

    let target = Name::parse("db.shop.example").unwrap();
    let data = Data::Srv { weight: 100, port: 80, target: target.clone() };
    let answer = Answer {
        code: Code::Fine,
        answers: vec![Record { name: name.clone(), seconds: 5, data }],
        authority: Vec::new(),
        additional: vec![Record { name: target, seconds: 5, data: Data::A(Ipv4Addr::LOCALHOST) }],
    };
    let reply = query.reply(&answer, query.datagram());
    let after = &reply[reply.len() - 39..];
    let whole = [&[0, 0, 0, 100, 0, 80][..], b"\x02db\x04shop\x07example\x00"].concat();
    assert_eq!(after[..23], whole, "a target is never shortened");
    assert_eq!(after[23] & 0xc0, 0xc0, "other names are");
}

#[test]
fn what_does_not_fit_is_left_out_and_said_to_be() {
    let name = Name::parse("many.example").unwrap();
    for (size, limit, all) in [(None, 512, false), (Some(4096), 1232, false), (Some(100), 512, false)] {
        let query = Query::read(&question("many.example", kind::A, size)).unwrap();
        let reply = query.reply(&addresses(&name, 200), query.datagram());
        assert!(reply.len() <= limit && reply.len() > limit - 27, "{}", reply.len());
        assert_eq!(word(&reply, 2) & 0x0200 == 0, all);
        let records = usize::from(word(&reply, 6));
        let opt = usize::from(word(&reply, 10)) * 11;
        assert_eq!(reply.len(), 12 + 18 + records * 16 + opt, "every record is whole");
    }
    let query = Query::read(&question("many.example", kind::A, None)).unwrap();
    let reply = query.reply(&addresses(&name, 200), OVER_TCP);
    assert_eq!((word(&reply, 2) & 0x0200, word(&reply, 6)), (0, 200));
}

#[test]
fn what_is_no_question_is_refused_or_ignored() {
    let good = question("a.example", kind::A, Some(1232));
    assert!(Query::read(&good).is_ok());
    for length in 0..good.len() {
        let unreadable = Query::read(&good[..length]).unwrap_err();
        if length < 4 {
            assert_eq!(unreadable, Unreadable::Ignored);
            assert_eq!(unreadable.reply(), None);
        } else {
            assert_eq!(unreadable, Unreadable::Answered(0x1234, Code::Malformed), "{length}");
            assert_eq!(unreadable.reply().unwrap()[..4], [0x12, 0x34, 0x80, 0x01]);
        }
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Query::read(&bytes)
    };
    assert_eq!(changed(2, 0x81).unwrap_err(), Unreadable::Ignored, "an answer");
    assert_eq!(changed(2, 0x28).unwrap_err(), Unreadable::Answered(0x1234, Code::NotImplemented));
    assert_eq!(changed(5, 2).unwrap_err(), Unreadable::Answered(0x1234, Code::Malformed));
    assert_eq!(changed(12, 0xc0).unwrap_err(), Unreadable::Answered(0x1234, Code::Malformed));
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
        question("web.shop.svc.cluster.local", kind::A, Some(1232)),
        question("_http._tcp.web.shop.svc.cluster.local", kind::SRV, None),
        question(".", kind::ANY, Some(0)),
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
                let reply = query.reply(&addresses(&query.name, 40), query.datagram());
                assert!(reply.len() <= LARGEST && reply[..2] == bytes[..2]);
                // What was read is what was asked.
                let (name, _) = Name::read(&reply, HEADER).unwrap();
                assert_eq!(name, query.name);
                assert!(query.name.labels().all(|label| !label.is_empty() && label.len() <= 63));
                let _ = query.name.lowercase();
            }
            Err(unreadable) => drop(unreadable.reply()),
        }
    }
}
