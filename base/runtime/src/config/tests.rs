use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    grace: Duration,
    listen: Listen,
    store: Store,
    quotas: BTreeMap<String, ByteSize>,
    tags: Vec<String>,
    password: Option<SecretFile>,
    peers: Vec<Peer>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Listen {
    address: SocketAddr,
    max_connections: u16,
    tls: bool,
    name: String,
    load: f64,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Store {
    #[default]
    Memory,
    Sqlite {
        path: PathBuf,
    },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Peer {
    name: String,
    port: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(20),
            listen: Listen::default(),
            store: Store::default(),
            quotas: BTreeMap::new(),
            tags: Vec::new(),
            password: None,
            peers: Vec::new(),
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8443)),
            max_connections: 100,
            tls: true,
            name: "public".to_owned(),
            load: 0.5,
        }
    }
}

fn file(text: &str) -> Sources {
    Sources::default().file_text("pilothouse.toml", text)
}

fn variables<const N: usize>(variables: [(&str, &str); N]) -> Sources {
    Sources::default().environment(variables)
}

fn refusal(sources: Sources) -> String {
    let error = sources.load::<Config>().unwrap_err();
    crate::Chain(&error).to_string()
}

#[test]
fn nothing_set_gives_the_defaults() {
    assert_eq!(Sources::default().load::<Config>().unwrap(), Config::default());
}

#[test]
fn each_source_overrides_the_ones_below_key_by_key() {
    let config: Config = file("grace = '1s'\n[listen]\nmax_connections = 1\nname = 'file'\ntls = false")
        .environment([("PILOTHOUSE_LISTEN__MAX_CONNECTIONS", "2"), ("PILOTHOUSE_LISTEN__NAME", "variable")])
        .flags(toml::toml! { listen = { name = "flag" } })
        .load()
        .unwrap();
    assert_eq!(config.grace, Duration::from_secs(1));
    let listen = Listen { max_connections: 2, name: "flag".into(), tls: false, ..Listen::default() };
    assert_eq!(config.listen, listen);
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let config: Config =
        file("tags = ['a', 'b', 'c']").environment([("PILOTHOUSE_TAGS", "d")]).load().unwrap();
    assert_eq!(config.tags, ["d"]);
}

#[test]
fn variables_are_read_as_the_type_that_is_wanted() {
    let config: Config = variables([
        ("PILOTHOUSE_GRACE", "1m"),
        ("PILOTHOUSE_LISTEN__ADDRESS", "[::1]:1"),
        ("PILOTHOUSE_LISTEN__MAX_CONNECTIONS", "7"),
        ("PILOTHOUSE_LISTEN__TLS", "false"),
        // Text that looks like a number where text is wanted.
        ("PILOTHOUSE_LISTEN__NAME", "123"),
        ("PILOTHOUSE_LISTEN__LOAD", "1"),
        ("PILOTHOUSE_STORE__SQLITE__PATH", "db"),
        ("PILOTHOUSE_QUOTAS__ADA", "1MiB"),
        ("PILOTHOUSE_TAGS", "a, b"),
        ("PILOTHOUSE_PASSWORD", "/run/secrets/password"),
        ("PILOTHOUSE_PEERS", "[{ name = 'one', port = 1 }]"),
        ("HOME", "/root"),
        ("PILOTHOUSE_LOG", "debug"),
    ])
    .load()
    .unwrap();
    assert_eq!(
        config,
        Config {
            grace: Duration::from_secs(60),
            listen: Listen {
                address: "[::1]:1".parse().unwrap(),
                max_connections: 7,
                tls: false,
                name: "123".into(),
                load: 1.0,
            },
            store: Store::Sqlite { path: "db".into() },
            quotas: BTreeMap::from([("ada".to_owned(), ByteSize::mebibytes(1))]),
            tags: vec!["a".into(), "b".into()],
            password: Some(SecretFile::new("/run/secrets/password")),
            peers: vec![Peer { name: "one".into(), port: 1 }],
        }
    );
}

#[test]
fn all_unknown_keys_are_named_with_their_source_and_the_nearest_known_one() {
    let sources = file("garce = '1s'\n\n[listen]\nadress = 'x'\n\n[colour]\nred = 1\n\n[[peers]]\nname = 'a'\nport = 1\nprot = 2")
        .environment([("PILOTHOUSE_LISTEN__TSL", "true")])
        .flags(toml::toml! { greace = "2s" });
    insta::assert_snapshot!(refusal(sources), @r"
    unknown key `colour` in pilothouse.toml, line 6
    unknown key `garce` in pilothouse.toml, line 1; did you mean `grace`?
    unknown key `greace` in a flag; did you mean `grace`?
    unknown key `listen.adress` in pilothouse.toml, line 4; did you mean `listen.address`?
    unknown key `listen.tsl` in the environment variable PILOTHOUSE_LISTEN__TSL; did you mean `listen.tls`?
    unknown key `peers.0.prot` in pilothouse.toml, line 12; did you mean `peers.0.port`?
    ");
}

#[test]
fn misspelt_key_is_named_rather_than_the_one_that_is_missing() {
    insta::assert_snapshot!(refusal(file("[[peers]]\nname = 'a'\nprot = 1")), @"unknown key `peers.0.prot` in pilothouse.toml, line 3; did you mean `peers.0.port`?
    ");
}

#[test]
fn wrong_values_are_named_with_path_and_source() {
    let refusals = [
        file("grace = 30"),
        file("\n[listen]\nmax_connections = 70000"),
        file("[listen]\ntls = 'yes'"),
        file("listen = 1"),
        file("peers = [{ name = 'a', port = 1 }, { name = 'b', port = 'x' }]"),
        file("[quotas]\nada = '64'"),
        file("store = 'mysql'"),
        file("[store.sqlite]"),
        file("[[peers]]\nname = 'a'"),
        file("tags = 'a'"),
        file("[store.sqlite]\npath = 'db'").environment([("PILOTHOUSE_STORE__MEMORY", "")]),
        variables([("PILOTHOUSE_LISTEN__ADDRESS", "localhost")]),
        variables([("PILOTHOUSE_LISTEN__MAX_CONNECTIONS", "many")]),
        variables([("PILOTHOUSE_LISTEN", "many")]),
        variables([("PILOTHOUSE_LISTEN", "1"), ("PILOTHOUSE_LISTEN__TLS", "true")]),
        Sources::default().flags(toml::toml! { listen = { max_connections = "two" } }),
    ];
    let refusals: Vec<_> = refusals.into_iter().map(refusal).collect();
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    `grace` in pilothouse.toml, line 1: invalid type: integer `30`, expected a duration with its unit, such as "30s" or "1h 30m"
    `listen.max_connections` in pilothouse.toml, line 3: invalid value: integer `70000`, expected u16
    `listen.tls` in pilothouse.toml, line 2: invalid type: string "yes", expected a boolean
    `listen` in pilothouse.toml, line 1: invalid type: integer `1`, expected struct Listen
    `peers.1.port` in pilothouse.toml, line 1: invalid type: string "x", expected u16
    `quotas.ada` in pilothouse.toml, line 2: `64` is not a size with its unit, such as "64MiB" or "100MB"
    `store` in pilothouse.toml, line 1: unknown variant `mysql`, expected `memory` or `sqlite`
    `store.sqlite.path` is not set: give it in the configuration file or as PILOTHOUSE_STORE__SQLITE__PATH
    `peers.0.port` is not set: give it in the configuration file
    `tags` in pilothouse.toml, line 1: invalid type: string "a", expected a sequence
    `store` in pilothouse.toml, line 1: `memory` and `sqlite` exclude each other
    `listen.address` in the environment variable PILOTHOUSE_LISTEN__ADDRESS: invalid socket address syntax
    `listen.max_connections` in the environment variable PILOTHOUSE_LISTEN__MAX_CONNECTIONS: invalid type: string "many", expected u16
    `listen` in the environment variable PILOTHOUSE_LISTEN: invalid type: string "many", expected struct Listen
    the environment variables PILOTHOUSE_LISTEN and PILOTHOUSE_LISTEN__TLS cannot both be set: one is inside the other
    `listen.max_connections` in a flag: invalid type: string "two", expected u16
    "#);
}

#[test]
fn file_that_is_not_toml_is_refused_with_the_place() {
    insta::assert_snapshot!(refusal(file("grace = '1s'\nlisten = [")), @r"
    the configuration file `pilothouse.toml` is not valid TOML: TOML parse error at line 2, column 11
      |
    2 | listen = [
      |           ^
    unclosed array, expected `]`
    ");
}

#[test]
fn absent_file_is_refused_by_name() {
    let error = Sources::default().file(Path::new("absent.toml")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the configuration file `absent.toml`");
}

#[test]
fn dump_shows_everything_but_secrets_and_reads_back() {
    let config: Config = file(
        "grace = '90s'\npassword = '/run/secrets/password'\n[store.sqlite]\npath = 'db'\n[quotas]\nada = '1.5MiB'\n[[peers]]\nname = 'a'\nport = 1",
    )
    .load()
    .unwrap();
    let dumped = dump(&config).unwrap();
    insta::assert_snapshot!(dumped, @r#"
    grace = "1m 30s"
    tags = []
    password = "/run/secrets/password"

    [listen]
    address = "127.0.0.1:8443"
    max_connections = 100
    tls = true
    name = "public"
    load = 0.5

    [store.sqlite]
    path = "db"

    [quotas]
    ada = "1536KiB"

    [[peers]]
    name = "a"
    port = 1
    "#);
    assert_eq!(file(&dumped).load::<Config>().unwrap(), config);
}

#[test]
fn load_reads_the_file_that_was_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pilothouse.toml");
    fs::write(&path, "grace = '3s'").unwrap();
    let args = ConfigArgs { config: Some(path), ..ConfigArgs::default() };
    let config: Config = load(&args, toml::toml! { tags = ["a"] }).unwrap();
    assert_eq!(config.grace, Duration::from_secs(3));
    assert_eq!(config.tags, ["a"]);
}
