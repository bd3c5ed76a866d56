//! Which programs a node can run as images, beside those that every node can.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use pilothouse_kubelet::check_image;

/// The options that list images.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// A program of this machine that pods may name as their image, such as `web=/usr/local/bin/web`; repeatable
    #[arg(long = "image", value_name = "NAME=PATH", value_parser = listed)]
    images: Vec<(String, PathBuf)>,
    /// The folder with programs of upstream Kubernetes, which are images by their version [default: `pilothouse/upstream` in
    /// the user's cache directory]
    #[arg(long, value_name = "DIR")]
    upstream: Option<PathBuf>,
}

impl ImageArgs {
    /// The programs by their names. The last of a name counts.
    pub(crate) fn listed(&self) -> BTreeMap<String, PathBuf> {
        self.images.iter().cloned().collect()
    }

    /// Where programs of upstream Kubernetes are, if anywhere. There need not be any yet.
    pub(crate) fn upstream(&self) -> Option<PathBuf> {
        let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
        let chosen = self.upstream.clone().or_else(|| Some(cache()?.join("pilothouse/upstream")))?;
        // Nodes have working folders of their own.
        std::path::absolute(chosen).ok()
    }
}

fn listed(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            let path = std::path::absolute(path).map_err(|error| error.to_string())?;
            check_image(name, &path)?;
            Ok((name.to_owned(), path))
        }
        _ => Err("write the image's name, `=` and the path of its program".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_name_and_a_program() {
        assert_eq!(listed("web:2=/bin/true"), Ok(("web:2".to_owned(), "/bin/true".into())));
        for text in ["web", "=/bin/true", "web=", "web=/no/such/program", "busybox=/bin/true"] {
            assert!(listed(text).is_err(), "{text}");
        }
    }
}
