//! Inputs nobody would write: a small fuzzer for the code that reads what clients send.
//!
//! Bytes are turned into structured inputs by [`Source`], so that most of them get past the first check. A target says what
//! came of an input in a few words; an input with an outcome that was not seen before is kept and changed further, which
//! needs no instrumented build. Every target begins with its corpus (`tests/fuzz/corpus/TARGET`), then goes on for some
//! seconds of processor time, or ten minutes where long runs are asked for. What brings a target down is saved to its
//! corpus and is replayed from then on.
//!
//! `PILOTHOUSE_FUZZ_KEEP=1 cargo test -p pilothouse-kubeapi fuzz` adds inputs with new outcomes to the corpora.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

mod apply;
mod patch;
mod protobuf;
mod schema;
mod selector;
mod source;

use self::source::Source;

const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(600);
/// Far beyond what any input may take.
const LONGEST_INPUT: Duration = Duration::from_secs(5);
/// Inputs that are kept to be changed further.
const POOL: usize = 2_000;
const LARGEST: usize = 4 << 10;
/// Inputs in a corpus, beside those that brought something down.
const MOST_KEPT: usize = 64;

/// Runs a target until its time is over. It answers with what came of an input, and panics if that must not be.
fn run(name: &str, target: impl Fn(Source<'_>) -> String) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let budget = if std::env::var_os("PILOTHOUSE_TEST_LONG").is_some() { LONG } else { SHORT };
    let keep = std::env::var_os("PILOTHOUSE_FUZZ_KEEP").is_some();
    let mut random = StdRng::from_os_rng();
    let (mut pool, mut outcomes) = (read(&corpus), HashSet::new());
    for input in &pool {
        outcomes.insert(digest(tried(input, &corpus, &target)));
    }
    let start = processor_time();
    let (mut count, mut kept) = (0_u64, pool.len());
    while processor_time() - start < budget {
        for _ in 0..32 {
            count += 1;
            let input = next(&pool, &mut random);
            let outcome = tried(&input, &corpus, &target);
            if outcomes.insert(digest(&outcome)) {
                if keep && kept < MOST_KEPT {
                    save(&corpus, "seed", &input);
                    kept += 1;
                }
                if pool.len() < POOL {
                    pool.push(input);
                } else {
                    let place = random.random_range(0..POOL);
                    pool[place] = input;
                }
            }
        }
    }
    println!("{name}: {count} inputs, {} outcomes, a pool of {}", outcomes.len(), pool.len());
    assert!(outcomes.len() > 3, "{name} always comes to the same: its inputs do not get anywhere");
}

/// Tries one input. If it fails, it is saved first.
fn tried(input: &[u8], corpus: &Path, target: &impl Fn(Source<'_>) -> String) -> String {
    let start = processor_time();
    let outcome = catch_unwind(AssertUnwindSafe(|| target(Source::new(input))));
    let took = processor_time() - start;
    match outcome {
        Ok(outcome) if took < LONGEST_INPUT => outcome,
        Ok(_) => panic!("an input took {took:?}: {}", save(corpus, "slow", input).display()),
        Err(panic) => {
            println!("the input is kept as {}", save(corpus, "crash", input).display());
            resume_unwind(panic);
        }
    }
}

/// Another input: now and then from nothing, mostly a change of one that got somewhere.
fn next(pool: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    if pool.is_empty() || random.random_ratio(1, 8) {
        let mut fresh = vec![0; random.random_range(1..512)];
        random.fill(&mut fresh[..]);
        return fresh;
    }
    let mut input = pool[random.random_range(0..pool.len())].clone();
    for _ in 0..random.random_range(1..8) {
        let place = random.random_range(0..=input.len());
        match random.random_range(0..5) {
            0 if place < input.len() => input[place] = random.random(),
            1 if place < input.len() => input[place] ^= 1 << random.random_range(0..8),
            2 => input.insert(place, random.random()),
            3 if place < input.len() => {
                let end = random.random_range(place..=input.len().min(place + 16));
                input.drain(place..end);
            }
            _ => {
                let other = &pool[random.random_range(0..pool.len())];
                let from = random.random_range(0..=other.len());
                let end = random.random_range(from..=other.len());
                input.splice(place..place, other[from..end].iter().copied());
            }
        }
        input.truncate(LARGEST);
    }
    input
}

fn read(corpus: &Path) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(corpus) else { return Vec::new() };
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn save(corpus: &Path, sort: &str, input: &[u8]) -> PathBuf {
    let path = corpus.join(format!("{sort}-{:016x}", digest(input)));
    fs::create_dir_all(corpus).and_then(|()| fs::write(&path, input)).unwrap_or_else(|error| {
        println!("{} cannot be written ({error}); the input is {input:?}", path.display());
    });
    path
}

fn digest(value: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What this thread has used: a machine that is busy with other things makes nothing slow here.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the kernel counts what threads use"))
}

/// What sort of message it is: its beginning, up to where it quotes the input.
fn class(text: &str) -> String {
    let message = text.split_once("message: \"").map_or(text, |(_, message)| message);
    let quotes =
        |character: &char| !matches!(character, '"' | '\'' | '`' | ':' | '\\') && !character.is_ascii_digit();
    message.chars().take_while(quotes).take(60).collect()
}

#[test]
fn what_brings_a_target_down_is_found_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("planted");
    // A bug behind three conditions, each of which shows in the outcome.
    let target = |mut source: Source<'_>| {
        let (one, two, three) = (source.choice(16), source.choice(16), source.choice(16));
        assert!((one, two, three) != (7, 3, 11), "planted");
        format!("{} {}", one == 7, one == 7 && two == 3)
    };
    let (mut random, mut pool, mut outcomes) = (StdRng::seed_from_u64(7), Vec::new(), HashSet::new());
    let found = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..1_000_000 {
            let input = next(&pool, &mut random);
            if outcomes.insert(tried(&input, &corpus, &target)) {
                pool.push(input);
            }
        }
    }));
    assert!(found.is_err(), "nothing was found");
    let kept = read(&corpus);
    assert_eq!(kept.len(), 1);
    assert!(catch_unwind(|| target(Source::new(&kept[0]))).is_err(), "what is kept does it again");
}
