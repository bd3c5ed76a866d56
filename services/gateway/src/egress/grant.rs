//! The way out of a hosted cluster, as its routes say.
//!
//! So it comes and goes with the cluster, and nobody has to write down anywhere else which clusters there are.

use kube::ResourceExt;
use pilothouse_crds::Route;

use super::Permission;

/// The number of the private link that the cluster comes through.
const LINK: &str = "pilothouse.dev/egress-link";
/// Where it may go, beside where all may, with spaces between.
const ALLOW: &str = "pilothouse.dev/egress-allow";

/// Who asks, and where it may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) link: u32,
    pub(crate) allow: Vec<Permission>,
}

impl Grant {
    /// Reads it off a route, if that says anything about it.
    ///
    /// # Errors
    ///
    /// What cannot be understood; then there is no way out.
    pub(crate) fn of(route: &Route) -> Result<Option<Self>, String> {
        let annotations = route.annotations();
        let list = annotations.get(ALLOW);
        let link = match (annotations.get(LINK), list) {
            (Some(link), _) => link,
            (None, Some(_)) => {
                return Err(format!("annotation {ALLOW} without {LINK}, which says whose it is; set both"));
            }
            (None, None) => return Ok(None),
        };
        let link = link.parse().map_err(|_| {
            format!("annotation {LINK}: `{link}` is no number; write that of the cluster's private link")
        })?;
        let allow = list.into_iter().flat_map(|list| list.split_whitespace()).map(str::parse);
        let allow =
            allow.collect::<Result<_, _>>().map_err(|error| format!("annotation {ALLOW}: {error}"))?;
        Ok(Some(Self { link, allow }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(annotations: &[(&str, &str)]) -> Result<Option<Grant>, String> {
        let mut route = Route::default();
        let owned = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        route.metadata.annotations = Some(owned.collect());
        Grant::of(&route)
    }

    #[test]
    fn link_and_list_are_read_and_nonsense_grants_nothing() {
        assert_eq!(grant(&[]), Ok(None));
        let read = grant(&[(LINK, "42"), (ALLOW, "registry.example.com:5000 10.2.0.0/16")]).unwrap().unwrap();
        assert_eq!(read.link, 42);
        let allow: Vec<_> = read.allow.iter().map(ToString::to_string).collect();
        assert_eq!(allow, ["registry.example.com:5000", "10.2.0.0/16:443"]);
        assert_eq!(grant(&[(LINK, "42")]).unwrap().unwrap().allow, []);
        for nonsense in
            [&[(ALLOW, "example.com")][..], &[(LINK, "-1")], &[(LINK, "42"), (ALLOW, "https://example.com")]]
        {
            assert!(grant(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
