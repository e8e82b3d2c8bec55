//! What is a name, and what is not the same one.

use leasehold::ErrorKind;
use leasehold::engine::profile::Lists;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, free};
use super::recipe::Client;
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(bad_names_are_refused_by_every_call),
        check!(look_alikes_are_independent),
        check!(an_odd_name_comes_back_as_it_was),
        check!(namespaces_are_independent),
        check!(bad_namespaces_are_refused),
        check!(a_label_and_a_meta_text_come_back_as_they_were).of_known_leases(),
    ]
}

async fn bad_names_are_refused_by_every_call(store: Store) -> Outcome {
    let locks = store.open().await?;
    let long = "x".repeat(256);
    for bad in ["", &long, "a\0b", "a\nb", "a\u{7f}", "a\u{85}b"] {
        let mutex = locks.mutex(bad);
        let errors =
            [mutex.lock().await.err(), mutex.try_lock().await.err(), mutex.status().await.err()];
        for error in errors {
            let error = error.ok_or_else(|| format!("{bad:?} is taken for a name"))?;
            ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        }
    }
    Ok(())
}

/// Names that a server might fold, trim, match, escape or hash into one.
fn look_alikes() -> Vec<String> {
    let plain = [
        "a",
        "A",
        "a ",
        " a",
        "a/",
        "a/b",
        "/a",
        "a//b",
        "%",
        "_",
        "a%",
        "a_",
        "'",
        "\"",
        "''",
        "`",
        "\\",
        "{}",
        "{a}",
        "{a}b",
        "a{b}c",
        ":",
        "a:b",
        "?",
        "*",
        "[a]",
        ".",
        "..",
        "../a",
        "-",
        "--",
        ";",
        "a;b",
        "\u{e9}",
        "e\u{301}",
        "\u{df}",
        "ss",
        "\u{130}",
        "i",
        "I",
        "ı",
        "\u{feff}a",
        "a\u{200b}",
        "😀",
        "0",
        "00",
        "NULL",
        "null",
    ];
    let long = ["x".repeat(255), "x".repeat(254), format!("{}y", "x".repeat(254))];
    plain.into_iter().map(str::to_owned).chain(long).collect()
}

async fn look_alikes_are_independent(store: Store) -> Outcome {
    let locks = store.open().await?;
    let mut guards = Vec::new();
    for name in look_alikes() {
        let guard = locks.mutex(&name).ttl(HOUR).try_lock().await?;
        guards.push(guard.ok_or_else(|| format!("{name:?} is taken for another name"))?);
    }
    if locks.profile().listing < Lists::Indexed {
        return Ok(());
    }
    let count = locks.list("", Default::default()).await?.names.len();
    ensure!(count == guards.len(), "{count} names instead of {}", guards.len());
    Ok(())
}

async fn an_odd_name_comes_back_as_it_was(store: Store) -> Outcome {
    let locks = store.open().await?;
    for name in look_alikes() {
        let guard = locks.mutex(&name).lock().await?;
        ensure!(guard.name().as_str() == name, "{:?} instead of {name:?}", guard.name());
        let status = locks.status(&name).await?;
        ensure!(status.name.as_str() == name && status.holders.len() == 1, "{status:?}");
        guard.release().await?;
    }
    Ok(())
}

async fn namespaces_are_independent(store: Store) -> Outcome {
    let locks = store.open().await?;
    let spaces = ["shop", "Shop", "shop.eu", "default"];
    let mut guards = Vec::new();
    for space in spaces {
        guards.push(free(&locks.namespace(space)?.mutex("n")).await?);
    }
    ensure!(locks.mutex("n").try_lock().await?.is_none(), "`default` is the default");
    for space in spaces {
        alone_in(&locks.namespace(space)?).await?;
    }
    Ok(())
}

async fn alone_in(locks: &Client) -> Outcome {
    if locks.profile().listing < Lists::Indexed {
        return Ok(());
    }
    let names = locks.list("", Default::default()).await?.names;
    ensure!(names.len() == 1, "it sees the names of others: {names:?}");
    Ok(())
}

async fn bad_namespaces_are_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    let long = "x".repeat(65);
    for bad in ["", "a b", "a/b", "é", "{a}", &long] {
        let error = locks.namespace(bad).err().ok_or_else(|| format!("{bad:?} is taken"))?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    }
    Ok(())
}

async fn a_label_and_a_meta_text_come_back_as_they_were(store: Store) -> Outcome {
    let locks = store.open().await?;
    let (label, meta) = ("al'ice \"é\" %s {}", "two\nlines, 'quoted' \\ 😀");
    let _guard = locks.mutex("n").label(label).meta(meta).lock().await?;
    let held = locks.mutex("n").status().await?.holders.pop().ok_or("nobody holds it")?;
    ensure!(&*held.label == label, "{:?}", held.label);
    ensure!(held.meta.as_deref() == Some(meta), "{:?}", held.meta);
    Ok(())
}
