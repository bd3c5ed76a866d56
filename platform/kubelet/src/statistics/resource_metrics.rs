//! `/metrics/resource`: counters and gauges of everything that runs, with the moment they were read at.

use std::fmt::Write as _;

use super::Sample;
use crate::cgroups::group::Usage;

/// Labels, and what they are about.
type Line = (String, Usage, f64);

pub(super) fn text(sample: &Sample) -> String {
    let moment = sample.at.as_millisecond();
    let mut containers = Vec::new();
    let mut pods = Vec::new();
    for pod in &sample.pods {
        let place = format!("namespace=\"{}\",pod=\"{}\"", pod.namespace, pod.name);
        let seconds = |at: jiff::Timestamp| at.as_duration().as_secs_f64();
        for container in &pod.containers {
            let labels = format!("{{container=\"{}\",{place}}}", container.name);
            containers.push((labels, container.usage, seconds(container.started_at)));
        }
        pods.push((format!("{{{place}}}"), pod.usage, seconds(pod.started_at)));
    }
    let node = [(String::new(), sample.node, 0.0)];
    let processor = |(_, usage, _): &Line| usage.processor as f64 / 1e9;
    let memory = |(_, usage, _): &Line| usage.memory.working_set as f64;
    let started = |(_, _, started): &Line| *started;
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, lines: &[Line], value: &dyn Fn(&Line) -> f64| {
        if lines.is_empty() {
            return;
        }
        // Writing into a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for line in lines {
            let _ = writeln!(text, "{name}{} {} {moment}", line.0, value(line));
        }
    };
    let seconds = "Processor time used, in seconds";
    let bytes = "Memory in use that cannot be dropped, in bytes";
    family("container_cpu_usage_seconds_total", "counter", seconds, &containers, &processor);
    family("container_memory_working_set_bytes", "gauge", bytes, &containers, &memory);
    let since = "When it was started, in seconds since 1970";
    family("container_start_time_seconds", "gauge", since, &containers, &started);
    family("node_cpu_usage_seconds_total", "counter", seconds, &node, &processor);
    family("node_memory_working_set_bytes", "gauge", bytes, &node, &memory);
    family("pod_cpu_usage_seconds_total", "counter", seconds, &pods, &processor);
    family("pod_memory_working_set_bytes", "gauge", bytes, &pods, &memory);
    let _ = writeln!(
        text,
        "# HELP resource_scrape_error 1 if something could not be read\n# TYPE resource_scrape_error gauge\nresource_scrape_error 0"
    );
    text
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::time::Instant;

    use super::*;
    use crate::cgroups::group::Memory;
    use crate::statistics::{ContainerSample, PodSample};

    #[tokio::test]
    async fn everything_is_said_under_the_usual_names() {
        let at = Timestamp::from_second(100).unwrap();
        let memory = Memory { usage: 4096, working_set: 2048, resident: 1024 };
        let usage = Usage { processor: 1_500_000_000, memory, processes: 1 };
        let container = ContainerSample { name: "main".to_owned(), started_at: at, usage };
        let pod = PodSample {
            namespace: "a".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
            started_at: at,
            usage,
            containers: vec![container],
        };
        let text = text(&Sample { taken: Instant::now(), at, node: usage, pods: vec![pod] });
        for line in [
            "container_cpu_usage_seconds_total{container=\"main\",namespace=\"a\",pod=\"web\"} 1.5 100000",
            "container_start_time_seconds{container=\"main\",namespace=\"a\",pod=\"web\"} 100 100000",
            "node_cpu_usage_seconds_total 1.5 100000",
            "pod_memory_working_set_bytes{namespace=\"a\",pod=\"web\"} 2048 100000",
            "# TYPE pod_cpu_usage_seconds_total counter",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}
