//! Measurements; run with `--release -- --ignored --nocapture speed`.

use super::*;

fn report(what: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let at = |part: usize| samples[samples.len() * part / 100];
    #[expect(clippy::print_stdout, reason = "that is what it is for")]
    {
        println!("{what}: p50 {:?}, p99 {:?}, min {:?}", at(50), at(99), samples[0]);
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn speed_of_an_uncontended_pair() {
    let rig = Rig::new();
    let engine = Sqlite::open(rig.options(), Clock::System).await.unwrap();
    let clock = Clock::System;
    let mut samples = Vec::new();
    for _ in 0..20_000 {
        let one = ticket("job");
        let start = clock.now();
        take(&engine, &one).await;
        give_back(&engine, &one).await;
        samples.push(clock.now().since(start));
    }
    report("acquire + release", samples);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn speed_of_a_hand_over() {
    let rig = Rig::new();
    let a = Sqlite::open(rig.options(), Clock::System).await.unwrap();
    let b = Sqlite::open(rig.options(), Clock::System).await.unwrap();
    let clock = Clock::System;
    let mut samples = Vec::new();
    for _ in 0..5_000 {
        let (first, second) = (ticket("job"), ticket("job"));
        take(&a, &first).await;
        queue(&b, &second).await;
        let wait = Handle::current().spawn(b.wait(second.clone(), Moment::NEVER));
        tokio::task::yield_now().await;
        let start = clock.now();
        drop(Handle::current().spawn(a.release(first, Ending::new())));
        assert!(matches!(wait.await.unwrap().unwrap(), Wake::Granted { .. }));
        samples.push(clock.now().since(start));
        give_back(&b, &second).await;
    }
    report("hand-over between two clients", samples);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn speed_of_many_tasks() {
    let rig = Rig::new();
    let engine = Arc::new(Sqlite::open(rig.options(), Clock::System).await.unwrap());
    let clock = Clock::System;
    let start = clock.now();
    let tasks = (0..64).map(|task| {
        let engine = Arc::clone(&engine);
        Handle::current().spawn(async move {
            for _ in 0..1000 {
                let one = ticket(&format!("job/{task}"));
                take(&engine, &one).await;
                give_back(&engine, &one).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    report("64 tasks, per pair", vec![clock.now().since(start) / 64_000]);
}
