//! The other roles of this program.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use pilothouse_kubelet::{Config, Deps, Service};
use pilothouse_runtime::{Clock, OnExit, Process};
use prometheus_client::registry::Registry;

/// How many descriptors a kubelet under test begins with. It raises that as far as it may.
pub(crate) const DESCRIPTORS: u64 = 4000;

/// A kubelet by the configuration in a file.
pub(crate) fn kubelet(path: Option<&str>) -> ExitCode {
    let config: Config = toml::from_str(&std::fs::read_to_string(path.unwrap()).unwrap()).unwrap();
    let entered = match pilothouse_kubelet::enter(&config) {
        Ok(entered) => entered,
        Err(error) => panic!("{}", pilothouse_runtime::Chain(&error)),
    };
    let filter = std::env::var("PILOTHOUSE_TEST_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    pilothouse_runtime::lower_descriptor_limit(DESCRIPTORS).unwrap();
    let code = pilothouse_runtime::block_on(async {
        let mut process = Process::install(Duration::from_secs(20)).unwrap();
        let deps = Deps { entered, clock: Clock::system(), registry: &mut Registry::default() };
        let service = match Service::build(config, deps).await {
            Ok(service) => service,
            Err(error) => panic!("{}", pilothouse_runtime::Chain(&error)),
        };
        let tasks = process.tasks("kubelet");
        let shutdown = process.shutdown().clone();
        tasks.spawn(
            "service",
            OnExit::StopProcess,
            async move { Ok(Box::pin(service.run(shutdown)).await?) },
        );
        process.run().await
    });
    ExitCode::from(code.code())
}

/// An HTTP server on every address, which answers everything with one text; 503 as long as a file does not exist.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let (port, text, needed) = (&arguments[0], &arguments[1], arguments.get(2));
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let (text, needed) = (text.clone(), needed.cloned());
        std::thread::spawn(move || {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let ready = needed.as_ref().is_none_or(|path| std::path::Path::new(path).exists());
            if let Some(path) = needed.filter(|_| !ready) {
                let _ = std::fs::write(format!("{path}.refused"), "");
            }
            let status = if ready { "200 OK" } else { "503 Not Yet" };
            let length = text.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        });
    }
    ExitCode::SUCCESS
}

/// Prints what an HTTP server answers.
pub(crate) fn fetch(arguments: &[String]) -> ExitCode {
    match TcpStream::connect(&arguments[0]) {
        Ok(mut stream) => {
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // Who is not let in may find out here already.
            let _ = write!(stream, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            let body = answer.split("\r\n\r\n").nth(1).unwrap_or("nothing").to_owned();
            let _ = writeln!(std::io::stdout(), "{body}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stdout(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Passes connections to a port on to the API server behind a host socket.
pub(crate) fn relay(arguments: &[String]) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(format!("0.0.0.0:{}", arguments[0])).await.unwrap();
        let dialer = pilothouse_kubelet_api::Dialer::new(&arguments[1]);
        let target = pilothouse_kubelet_api::Target::Named("management-api".into());
        let mut relayed = tokio::task::JoinSet::new();
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let (dialer, target) = (dialer.clone(), target.clone());
            relayed.spawn(async move {
                let mut far = dialer.connect_to(&target).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    })
}
