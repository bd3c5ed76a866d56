use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use super::*;

/// Somewhere to write that the test can read.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(config: &Config, terminal: bool, events: impl FnOnce()) -> String {
    let page = Page::default();
    let writer = page.clone();
    let layer = log_layer(config, terminal, BoxMakeWriter::new(move || writer.clone())).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), events);
    let bytes = page.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn config(format: Format) -> Config {
    Config { format, filter: Some("info".into()), ..Config::default() }
}

#[test]
fn terminals_get_text_and_everything_else_gets_json() {
    let event = || {
        let _span = tracing::info_span!("task", owner = "gateway").entered();
        tracing::info!(cluster = "ada", "applied manifests");
    };
    let text = logged(&config(Format::Auto), true, event);
    assert!(text.contains("applied manifests") && text.contains("\u{1b}["), "{text}");

    let json = logged(&config(Format::Auto), false, event);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["message"], "applied manifests");
    assert_eq!(json["cluster"], "ada");
    assert_eq!(json["spans"][0]["owner"], "gateway");
}

#[test]
fn format_can_be_forced() {
    let event = || tracing::info!("hello");
    let text = logged(&config(Format::Text), false, event);
    assert!(text.contains("hello") && !text.contains("\u{1b}["), "colours in a file: {text}");
    let json = logged(&config(Format::Json), true, event);
    assert!(json.starts_with('{'), "{json}");
}

#[test]
fn filter_comes_from_the_configuration_then_our_variable_then_everybodys() {
    let both = |name: &str| match name {
        LOG_VARIABLE => Ok("debug".to_owned()),
        COMMON_LOG_VARIABLE => Ok("trace".to_owned()),
        _ => Err(VarError::NotPresent),
    };
    let common = |name: &str| if name == LOG_VARIABLE { Ok(String::new()) } else { both(name) };
    let none = |_: &str| Err(VarError::NotPresent);
    let filter = |configured, variable: &dyn Fn(&str) -> Result<String, VarError>| {
        choose_filter(configured, variable).unwrap().to_string()
    };
    assert_eq!(filter(Some("warn"), &both), "warn");
    assert_eq!(filter(None, &both), "debug");
    assert_eq!(filter(None, &common), "trace");
    // Directives are printed from the most to the least specific.
    assert_eq!(filter(None, &none), "kube_client=off,info");
}

#[test]
fn nonsense_in_a_filter_is_refused_by_origin() {
    let error = choose_filter(None, |_| Ok("info,store=loud".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "`info,store=loud` from PILOTHOUSE_LOG is not a log filter");
}

/// Takes requests, answers each with 200, and passes on its path and body.
fn collector() -> (SocketAddr, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (requests_tx, requests_rx) = mpsc::channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let mut length = 0;
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).unwrap();
                let header = header.trim_end().to_lowercase();
                if header.is_empty() {
                    break;
                }
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            // Before the answer, so that whoever got one finds the request here.
            if requests_tx.send((first.trim_end().to_owned(), body)).is_err() {
                break;
            }
            connection
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
        }
    });
    (address, requests_rx)
}

fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn spans_reach_the_collector_when_the_guard_is_dropped() {
    // A second test may have been first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (address, requests) = collector();
    let exporter = Exporter::start("frontend", &format!("http://{address}/")).unwrap();
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    let guard = Guard { exporter: Some(exporter) };

    tracing::subscriber::with_default(subscriber, || {
        tracing::info_span!("reconcile", cluster = "ada").in_scope(|| {});
        tracing::info_span!(target: "hyper::client", "must not be exported").in_scope(|| {});
    });
    guard.flush();

    let (request, body) = requests.try_recv().expect("the guard was gone before the collector had answered");
    assert_eq!(request, "POST /v1/traces HTTP/1.1");
    for expected in ["reconcile", "cluster", "ada", "service.name", "frontend"] {
        assert!(contains(&body, expected), "no {expected} in {}", String::from_utf8_lossy(&body));
    }
    assert!(!contains(&body, "must not be exported"));
}

#[tokio::test]
async fn guard_may_be_dropped_inside_a_runtime() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (address, _requests) = collector();
    let exporter = Exporter::start("frontend", &format!("http://{address}")).unwrap();
    drop(Guard { exporter: Some(exporter) });
}
