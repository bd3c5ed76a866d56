use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const CLUSTER: &str = "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590/resourceGroups/Team-A/providers/\
                       Microsoft.RedHatOpenShift/hcpOpenShiftClusters/First";

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9-]{0,12}".prop_filter("a word of the path itself", |name| {
        !name.eq_ignore_ascii_case(PROVIDERS) && !name.eq_ignore_ascii_case(RESOURCE_GROUPS)
    })
}

prop_compose! {
    fn id()(
        subscription in any::<u128>(),
        group in proptest::option::of(name()),
        provider in proptest::option::of((name(), proptest::collection::vec((name(), name()), 1..4))),
    ) -> ResourceId {
        let mut id = ResourceId::subscription(SubscriptionId::new(uuid::Uuid::from_u128(subscription)));
        if let Some(group) = group {
            id = id.resource_group(&group);
        }
        if let Some((namespace, mut pairs)) = provider {
            let (kind, name) = pairs.remove(0);
            id = id.provider(&namespace, &kind, &name);
            for (kind, name) in pairs {
                id = id.child(&kind, &name);
            }
        }
        id
    }
}

fn swap_case(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
        .collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(id in id()) {
        let again: ResourceId = id.to_string().parse().unwrap();
        prop_assert_eq!(again.as_str(), id.as_str());
        prop_assert_eq!(again.name(), id.name());
        prop_assert_eq!(again.resource_type(), id.resource_type());
        prop_assert_eq!(again.resource_group_name(), id.resource_group_name());
    }

    #[test]
    fn case_does_not_matter_and_is_kept(id in id()) {
        let other: ResourceId = swap_case(id.as_str()).parse().unwrap();
        prop_assert_eq!(&other, &id);
        prop_assert_eq!(other.cmp(&id), Ordering::Equal);
        prop_assert_eq!(other.key(), id.key());
        prop_assert_eq!(HashSet::from([other.clone(), id.clone()]).len(), 1);
        prop_assert_eq!(other.to_string(), swap_case(id.as_str()));
    }

    #[test]
    fn a_child_lies_below_its_parent_and_nowhere_else(id in id(), kind in name(), name in name()) {
        prop_assume!(id.provider_namespace().is_some());
        let child = id.child(&kind, &name);
        prop_assert_eq!(child.parent().unwrap(), id.clone());
        prop_assert!(child.is_below(&id));
        prop_assert!(!id.is_below(&child) && !id.is_below(&id));
        prop_assert_eq!(child.name(), name);
    }

    #[test]
    fn every_line_of_parents_ends_at_the_subscription(id in id()) {
        let mut last = id.clone();
        let mut steps = 0;
        while let Some(parent) = last.parent() {
            prop_assert!(last.is_below(&parent));
            last = parent;
            steps += 1;
            prop_assert!(steps < 10);
        }
        prop_assert!(last.is_a("Microsoft.Resources/subscriptions"));
    }

    #[test]
    fn ids_are_in_order_of_their_keys(one in id(), other in id(), kind in name(), name in name(), which in 0..3) {
        // Strangers differ early; relatives differ in what matters.
        let other = match which {
            0 => other,
            1 => swap_case(one.child(&kind, &name).as_str()).parse().unwrap_or(other),
            _ => swap_case(one.as_str()).parse().unwrap(),
        };
        prop_assert_eq!(one.cmp(&other), one.key().cmp(&other.key()));
        prop_assert_eq!(one == other, one.key() == other.key());
        prop_assert_eq!(one.is_below(&other), one.key().starts_with(&format!("{}/", other.key())));
    }

    #[test]
    fn the_parser_stands_any_text(text in "(/[a-zA-Z.?%#]{0,15}){0,9}/?|\\PC{0,40}") {
        stands(&text);
    }

    #[test]
    fn the_parser_stands_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        stands(&String::from_utf8_lossy(&bytes));
        stands(&format!("/{}", String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn the_parser_stands_what_was_an_id_before_something_happened_to_it(
        id in id(), cut in any::<prop::sample::Index>(), put_in in "\\PC{0,3}|/|//|\u{0}",
    ) {
        let mut text = id.to_string();
        let ends: Vec<_> = text.char_indices().map(|(start, _)| start).collect();
        text.insert_str(ends[cut.index(ends.len())], &put_in);
        stands(&text);
    }
}

/// Whatever is taken must be an id in every respect, and nothing may bring the parser down.
fn stands(text: &str) {
    let Ok(id) = text.parse::<ResourceId>() else { return };
    assert_eq!(id.as_str(), text.strip_suffix('/').unwrap_or(text));
    assert_eq!(id.as_str().parse::<ResourceId>().as_ref(), Ok(&id));
    assert_eq!(id.key().parse::<ResourceId>().as_ref(), Ok(&id));
    assert!(!id.name().is_empty() && !id.name().contains('/'), "{text:?}");
    assert!(!id.resource_type().as_str().is_empty(), "{text:?}");
    let mut above = id.parent();
    while let Some(parent) = above {
        assert!(id.is_below(&parent), "{text:?}");
        assert_eq!(parent.as_str().parse::<ResourceId>().as_ref(), Ok(&parent), "{text:?}");
        above = parent.parent();
    }
    let written = serde_json::to_string(&id).unwrap();
    assert_eq!(serde_json::from_str::<ResourceId>(&written).unwrap(), id);
}

/// This and the properties above stand for a fuzz target: a coverage-guided one needs a compiler that is not the
/// project's. Whatever was found to be a problem once goes into the corpus, a line each.
#[test]
fn the_corpus_of_odd_ids_is_stood_and_split_as_it_says() {
    let corpus = include_str!("../../tests/corpus/resource_ids.txt");
    let mut count = 0;
    for line in corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (verdict, text) = line.split_once(' ').unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        stands(&text);
        assert_eq!(text.parse::<ResourceId>().is_ok(), verdict == "id", "{text:?}");
        count += 1;
    }
    assert!(count >= 40, "{count} lines");
}

#[test]
fn the_parts_of_a_cluster_and_of_its_node_pool() {
    let cluster: ResourceId = CLUSTER.parse().unwrap();
    assert_eq!(cluster.name(), "First");
    assert_eq!(cluster.resource_group_name(), Some("Team-A"));
    assert_eq!(cluster.provider_namespace(), Some("Microsoft.RedHatOpenShift"));
    assert!(cluster.is_a("microsoft.redhatopenshift/HCPopenshiftclusters"));
    assert_eq!(cluster.parent().unwrap().name(), "Team-A");
    let pool = cluster.child("nodePools", "workers");
    assert_eq!(pool.resource_type().as_str(), "Microsoft.RedHatOpenShift/hcpOpenShiftClusters/nodePools");
    let subscription = cluster.parent().unwrap().parent().unwrap();
    let operation =
        subscription.provider(crate::PROVIDER, "locations", "here").child("hcpOperationStatuses", "x");
    assert_eq!(operation.resource_group_name(), None);
    assert!(operation.is_a("Microsoft.RedHatOpenShift/locations/hcpOperationStatuses"));
}

#[test]
fn what_is_no_id_is_refused_with_the_reason() {
    for (text, problem) in [
        ("", "it does not begin with a slash"),
        ("subscriptions/s", "it does not begin with a slash"),
        ("/subscriptions", "it does not begin with /subscriptions/{id}"),
        ("/subscriptions//x", "it has an empty segment"),
        ("/tenants/t", "it does not begin with /subscriptions/{id}"),
        ("/subscriptions/s/resourceGroups", "behind the subscription comes"),
        ("/subscriptions/s/other/x", "behind the subscription comes"),
        ("/subscriptions/s/other/x/providers/p/t/n", "a provider's resources lie in"),
        ("/subscriptions/s/providers/p/t", "behind the provider's namespace come pairs"),
        ("/subscriptions/s/resourceGroups/g/providers/p/t/n/t", "behind the provider's namespace come pairs"),
        ("/subscriptions/s/resourceGroups/a%2fb", "it contains a character that no name may have"),
    ] {
        let error = text.parse::<ResourceId>().unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
