use std::time::Duration;

use hickory_proto::op::{self, Message, MessageType, OpCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use pilothouse_runtime::{Reason, Shutdown};

use super::*;

/// Many addresses for every name.
#[derive(Clone)]
struct Many;

impl Answers for Many {
    fn answer(&self, question: &op::Query, _: IpAddr) -> Answer {
        let record =
            |number| Record::from_rdata(question.name().clone(), 5, RData::A(A::new(10, 0, 0, number)));
        Answer::found((0..100).map(record).collect(), Vec::new())
    }
}

fn question(class: DNSClass) -> Vec<u8> {
    let mut query = op::Query::query(Name::from_ascii("many.example.").unwrap(), RecordType::A);
    query.set_query_class(class);
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(query);
    message.to_vec().unwrap()
}

#[test]
fn whoever_asks_too_much_is_told_to_come_by_a_connection() {
    let server = Server { answers: Many, strangers: None };
    let asked = question(DNSClass::IN);
    let reply = server.reply(&asked, IpAddr::from([203, 0, 113, 9]), By::TooMany).unwrap();
    assert_eq!(reply.len(), asked.len(), "nobody else gets more than was sent");
    let reply = Message::from_vec(&reply).unwrap();
    assert_eq!((reply.metadata.truncation, reply.answers.len()), (true, 0));
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
}

#[tokio::test]
async fn stranger_may_not_go_on_asking_for_ever() {
    let shutdown = Shutdown::new();
    let tasks = Tasks::new("test", shutdown.clone());
    let bound = Bound::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = bound.local_address().unwrap();
    let strangers = Strangers { origins: Origins::default(), lifetime: Duration::from_millis(200) };
    bound.serve(Server { answers: Many, strangers: Some(strangers) }, &tasks);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asking = async {
        let asked = question(DNSClass::IN);
        loop {
            stream.write_u16(asked.len().try_into().unwrap()).await?;
            stream.write_all(&asked).await?;
            let mut reply = vec![0; stream.read_u16().await?.into()];
            stream.read_exact(&mut reply).await?;
        }
    };
    let ended: io::Result<()> = timeout(2 * SILENCE, asking).await.unwrap();
    assert!(ended.is_err(), "never silent, and ended all the same");
    shutdown.request(Reason::Asked("the test is over".into()));
    tasks.drain(Duration::from_secs(20)).await.unwrap();
}

#[tokio::test]
async fn one_port_answers_datagrams_in_part_and_connections_in_full() {
    let shutdown = Shutdown::new();
    let tasks = Tasks::new("test", shutdown.clone());
    let bound = Bound::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = bound.local_address().unwrap();
    bound.start(Many, &tasks);

    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut buffer = [0; 4096];
    for (class, code) in [(DNSClass::IN, ResponseCode::NoError), (DNSClass::CH, ResponseCode::Refused)] {
        socket.send_to(&question(class), address).await.unwrap();
        let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
        let reply = Message::from_vec(&buffer[..length]).unwrap();
        assert_eq!(reply.metadata.response_code, code);
        assert_eq!(reply.metadata.truncation, code == ResponseCode::NoError);
        assert!(length <= 512);
    }

    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..2 {
        let asked = question(DNSClass::IN);
        stream.write_u16(asked.len().try_into().unwrap()).await.unwrap();
        stream.write_all(&asked).await.unwrap();
        let length = stream.read_u16().await.unwrap();
        let mut reply = vec![0; length.into()];
        stream.read_exact(&mut reply).await.unwrap();
        let reply = Message::from_vec(&reply).unwrap();
        assert_eq!((reply.metadata.truncation, reply.answers.len()), (false, 100));
    }
    shutdown.request(Reason::Asked("the test is over".into()));
    tasks.drain(Duration::from_secs(20)).await.unwrap();
}
