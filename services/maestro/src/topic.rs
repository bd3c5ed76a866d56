//! Where messages go.

/// What a server sends to a consumer.
pub(crate) fn source_events(source: &str, consumer: &str) -> String {
    format!("sources/{source}/consumers/{consumer}/sourceevents")
}

/// What a consumer's agent sends to the server; `+` for all of them.
pub(crate) fn agent_events(source: &str, consumer: &str) -> String {
    format!("sources/{source}/consumers/{consumer}/agentevents")
}

/// The consumer whose topic it is.
pub(crate) fn consumer(topic: &str) -> Option<&str> {
    let mut levels = topic.split('/').skip(3);
    let consumer = levels.next()?;
    (levels.next().is_some() && levels.next().is_none()).then_some(consumer)
}

/// Whether a name can be part of a topic, as all implementations demand.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_the_agreed_ones() {
        assert_eq!(source_events("maestro", "cluster1"), "sources/maestro/consumers/cluster1/sourceevents");
        assert_eq!(agent_events("maestro", "+"), "sources/maestro/consumers/+/agentevents");
        assert_eq!(consumer("sources/maestro/consumers/cluster1/sourceevents"), Some("cluster1"));
        assert_eq!(consumer("sources/maestro/sourcebroadcast"), None);
        assert!(is_name("hcp-underlay-uksouth-mgmt-1"));
        for odd in ["", "a/b", "+", "#", "A", "a_b"] {
            assert!(!is_name(odd), "{odd}");
        }
    }
}
