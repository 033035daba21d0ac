//! Processes of a shell, with signals, children and much output.

use std::{fs, os::unix::process::ExitStatusExt, path::Path, time::Instant};

use super::*;

/// What must come, comes within this time.
const PATIENCE: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

fn limits() -> ProcessLimits {
    ProcessLimits {
        grace: Duration::from_secs(5),
        ..ProcessLimits::new(PATIENCE)
    }
}

async fn ended(script: &str, limits: ProcessLimits) -> ProcessOutput {
    let cancel = CancellationToken::new();
    run(shell(script), limits, &cancel).await.expect("it runs")
}

/// Waits until a script has written the numbers of its processes, and returns them.
async fn numbers(file: &Path, count: usize) -> Vec<i32> {
    let written = async {
        loop {
            let text = fs::read_to_string(file).unwrap_or_default();
            let lines: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            if lines.len() == count {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, written).await.expect("in time")
}

/// Waits until no process has one of these numbers. A process that ended and was not reaped still
/// has its number.
async fn until_gone(numbers: &[i32]) {
    let is_there = |number: &i32| {
        let status = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // Of the test's own processes none may stay as a zombie; init reaps the others in its time.
        let parent = format!(" Z {} ", std::process::id());
        !status.is_empty() && (!status.contains(") Z ") || status.contains(&parent))
    };
    let gone = async {
        while numbers.iter().any(is_there) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("no process is left");
}

#[tokio::test]
async fn output_and_exit_are_read() {
    let output = ended("echo out; echo err >&2; exit 3", limits()).await;
    assert_eq!(output.end, ProcessEnd::Exited);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(
        (output.stderr, output.is_stderr_cut),
        (b"err\n".into(), false)
    );
}

#[tokio::test]
async fn the_beginning_of_output_and_the_end_of_errors_are_kept() {
    let few = ProcessLimits {
        stdout: 5,
        stderr: 7,
        ..limits()
    };
    // More than fits into a pipe: without a reader it would never end.
    let script = "printf 12345678; printf 'a\\nb\\n' >&2; head -c 300000 /dev/zero >&2; \
                  printf 'x\\nend' >&2; head -c 300000 /dev/zero";
    let output = ended(script, few).await;
    assert_eq!(output.stdout, b"12345");
    assert_eq!(output.stderr, b"\0\0x\nend");
    assert!(output.is_stderr_cut);
    assert_eq!(output.stderr_text(), "end");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let cancel = CancellationToken::new();
    let started = run(Command::new("/no/such/program"), limits(), &cancel).await;
    assert_eq!(
        started.expect_err("no program").kind(),
        io::ErrorKind::NotFound
    );
}

#[tokio::test]
async fn a_cancelled_process_gets_sigterm_first_and_can_clean_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("numbers");
    let script = format!(
        "trap 'echo cleaned; exit 4' TERM; echo $$ > {}; while :; do sleep 0.01; done",
        file.display()
    );
    let cancel = CancellationToken::new();
    let running = run(shell(&script), limits(), &cancel);
    let cancelling = async {
        let numbers = numbers(&file, 1).await;
        cancel.cancel();
        numbers
    };
    let (output, numbers) = tokio::join!(running, cancelling);
    let output = output.expect("it ran");
    assert_eq!(
        (output.end, output.status.code()),
        (ProcessEnd::Cancelled, Some(4))
    );
    assert_eq!(output.stdout, b"cleaned\n");
    until_gone(&numbers).await;
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_with_its_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("numbers");
    let script = format!(
        "trap '' TERM; echo $$ >> {0}; sh -c 'echo $$ >> {0}; while :; do sleep 0.01; done' & wait",
        file.display()
    );
    let soon = ProcessLimits {
        grace: Duration::from_millis(200),
        ..limits()
    };
    let cancel = CancellationToken::new();
    let running = run(shell(&script), soon, &cancel);
    let cancelling = async {
        let numbers = numbers(&file, 2).await;
        cancel.cancel();
        (numbers, Instant::now())
    };
    let (output, (numbers, cancelled)) = tokio::join!(running, cancelling);
    let output = output.expect("it ran");
    assert_eq!(
        (output.end, output.status.signal()),
        (ProcessEnd::Cancelled, Some(9))
    );
    assert!(
        cancelled.elapsed() < Duration::from_secs(10),
        "{:?}",
        cancelled.elapsed()
    );
    until_gone(&numbers).await;
}

#[tokio::test]
async fn a_timeout_stops_a_process() {
    let short = ProcessLimits {
        timeout: Duration::from_millis(100),
        ..limits()
    };
    let output = ended("exec sleep 600", short).await;
    assert_eq!(
        (output.end, output.status.signal()),
        (ProcessEnd::TimedOut, Some(15))
    );
}

#[tokio::test]
async fn a_child_that_outlives_the_process_is_killed_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("numbers");
    let script = format!("sleep 600 & echo $! > {}; echo done", file.display());
    let started = Instant::now();
    let output = ended(&script, limits()).await;
    assert_eq!(output.stdout, b"done\n");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    until_gone(&numbers(&file, 1).await).await;
}

#[tokio::test]
async fn nothing_is_left_when_the_future_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("numbers");
    let script = format!(
        "trap '' TERM; echo $$ >> {0}; sh -c 'echo $$ >> {0}; sleep 600' & wait",
        file.display()
    );
    let cancel = CancellationToken::new();
    let numbers = tokio::select! {
        output = run(shell(&script), limits(), &cancel) => panic!("it ended: {output:?}"),
        numbers = numbers(&file, 2) => numbers,
    };
    until_gone(&numbers).await;
}

#[tokio::test]
async fn an_operation_that_was_cancelled_before_its_start_ends_at_once() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let output = run(shell("exec sleep 600"), limits(), &cancel)
        .await
        .expect("it ran");
    assert_eq!(
        (output.end, output.status.signal()),
        (ProcessEnd::Cancelled, Some(15))
    );
}
