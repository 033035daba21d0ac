//! `ludgate tokens`: service tokens are made, listed and revoked where the gateway finds them.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat};
use tokio::sync::Notify;

use super::{
    apps::output::table_text,
    exit_code::{BAD_CONFIGURATION, DONE, FAILED},
};
use crate::{
    cli::tokens::{CreateTokenArgs, TokensCommand},
    identity::service_tokens::{
        ServiceTokenSettings,
        file::TokenFile,
        hash_prefix::HashPrefix,
        record::{SUBJECT_PREFIX, ServiceName, StoredToken, TokenList},
        redis::TokenStore,
        registry::{ServiceTokenRequest, TokenRegistry},
    },
    model::{access::GroupName, app::AppId, clock::Clock},
    ops::redis::{Link, LinkEvent, LinkPurpose, StoreMetrics},
    session::{cookie::RecordKey, settings::SessionSettings},
    settings::{self, Settings, parse_duration},
};

/// Longest life of a token.
const MAX_LIFE: Duration = Duration::from_secs(730 * 24 * 3600);
/// How long Redis may take to accept a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(5);

/// Runs one subcommand, and returns the exit code.
pub fn run(command: &TokensCommand) -> u8 {
    let config = match command {
        TokensCommand::Create(args) => &args.config,
        TokensCommand::List(args) => &args.config,
        TokensCommand::Revoke(args) => &args.config,
    };
    let settings = match settings::load(config) {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{}:\n{errors}", config.display());
            return BAD_CONFIGURATION;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run_with(command, settings, config)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{error:#}");
            FAILED
        }
    }
}

async fn run_with(
    command: &TokensCommand,
    settings: Settings,
    config: &Path,
) -> anyhow::Result<()> {
    let now = Clock::system().wall_seconds();
    match command {
        TokensCommand::Create(args) => {
            let request = request(args, now)?;
            warn_of_unknown_apps(&request, &settings);
            create(&request, &registry(settings, config).await?).await
        }
        TokensCommand::List(_) => {
            let list = registry(settings, config).await?.list().await?;
            print!("{}", table(&list, now));
            warn_of_unreadable(&list);
            Ok(())
        }
        TokensCommand::Revoke(args) => {
            if let Some(hash) = HashPrefix::parse(&args.name) {
                let registry = registry(settings, config).await?;
                registry.revoke_by_hash(&hash).await?;
                eprintln!("revoked the token with the hash {hash}");
                return Ok(());
            }
            let name = service_name(&args.name)?;
            registry(settings, config).await?.revoke(&name).await?;
            eprintln!("revoked {SUBJECT_PREFIX}{name}");
            Ok(())
        }
    }
}

/// The token that the arguments describe; `now` is in seconds since 1970.
fn request(args: &CreateTokenArgs, now: i64) -> anyhow::Result<ServiceTokenRequest> {
    let life = parse_duration(&args.expires)
        .with_context(|| format!("--expires {:?} is no duration such as 90d", args.expires))?;
    if life < Duration::from_secs(1) || life > MAX_LIFE {
        bail!("--expires must be from 1s to 730d");
    }
    let app = |id: &String| {
        let is_id = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'/')
        };
        let app = AppId::from_record(id).filter(|_| id.bytes().all(is_id));
        app.with_context(|| format!("--app {id:?} is no id of an app"))
    };
    let group = |name: &String| {
        GroupName::new(name).with_context(|| format!("--group {name:?} is no group"))
    };
    Ok(ServiceTokenRequest {
        name: service_name(&args.name)?,
        apps: args.apps.iter().map(app).collect::<anyhow::Result<_>>()?,
        groups: args
            .groups
            .iter()
            .map(group)
            .collect::<anyhow::Result<_>>()?,
        created: now,
        expires: now.saturating_add(i64::try_from(life.as_secs())?),
    })
}

fn service_name(text: &str) -> anyhow::Result<ServiceName> {
    ServiceName::new(text).with_context(|| {
        format!(
            "{text:?} is no name: 1 to 64 lower-case letters, digits, dots, dashes, underscores"
        )
    })
}

/// Apps of a cluster cannot be known here; those of the file can.
fn warn_of_unknown_apps(request: &ServiceTokenRequest, settings: &Settings) {
    if settings.kubernetes.is_some() {
        return;
    }
    let is_known = |id: &AppId| {
        let own = id.as_str().split(':').next();
        settings.apps.iter().any(|app| Some(app.id.as_str()) == own)
    };
    for id in request.apps.iter().filter(|id| !is_known(id)) {
        eprintln!("warning: the configuration has no app {id}");
    }
}

async fn create(request: &ServiceTokenRequest, registry: &TokenRegistry) -> anyhow::Result<()> {
    let token = registry.create(request).await?;
    println!("{}", token.as_str());
    let apps: Vec<&str> = request.apps.iter().map(AppId::as_str).collect();
    eprintln!(
        "{SUBJECT_PREFIX}{}, for {}, until {}; the token is not shown again",
        request.name,
        apps.join(", "),
        time(request.expires)
    );
    Ok(())
}

/// Where the configuration says that tokens are.
async fn registry(settings: Settings, config: &Path) -> anyhow::Result<TokenRegistry> {
    match (&settings.service_tokens, settings.session.store.is_some()) {
        (Some(ServiceTokenSettings::File(path)), _) => {
            Ok(TokenRegistry::File(TokenFile::new(path.clone())))
        }
        (Some(ServiceTokenSettings::SessionStore), true) => {
            let link = connect(&settings.session).await?;
            let store = TokenStore::new(link, settings.keys.clone());
            Ok(TokenRegistry::Redis(store))
        }
        (Some(ServiceTokenSettings::SessionStore), false) | (None, _) => {
            bail!("{} has no table [tokens]", config.display())
        }
    }
}

/// A connection to the Redis of sessions.
async fn connect(session: &SessionSettings) -> anyhow::Result<Arc<Link>> {
    let store = session.store.clone().context("session.store is no Redis")?;
    let purpose = LinkPurpose {
        store: "session store",
        while_away: "tokens cannot be changed",
        channel: "ludgate:none".to_owned(),
    };
    let link = Arc::new(Link::new(store, purpose, StoreMetrics::default()));
    let connected = Arc::new(Notify::new());
    let (running, event) = (link.clone(), connected.clone());
    // Ends with the process.
    tokio::spawn(async move {
        let on_event = |happened: LinkEvent| {
            if matches!(happened, LinkEvent::Connected) {
                event.notify_one();
            }
        };
        running.run(on_event).await;
    });
    tokio::time::timeout(CONNECTION_WAIT, connected.notified())
        .await
        .context("the session store cannot be reached")?;
    Ok(link)
}

/// Tokens that cannot be opened here may be valid at gateways with other keys.
fn warn_of_unreadable(list: &TokenList) {
    if !list.unreadable.is_empty() {
        eprintln!(
            "warning: {} of the tokens cannot be opened with the keys of session.keys_file; \
             gateways with other keys may accept them; revoke them by sha256:...",
            list.unreadable.len()
        );
    }
}

/// The tokens, one a line.
fn table(list: &TokenList, now: i64) -> String {
    let head = ["NAME", "APPS", "GROUPS", "CREATED", "EXPIRES", "ENDS WITH"];
    let head = Vec::from(head.map(str::to_owned));
    let row = |token: &StoredToken| {
        let record = &token.record;
        let expires = match record.expires <= now {
            true => "expired".to_owned(),
            false => time(record.expires),
        };
        vec![
            record.name.clone(),
            record.apps.join(","),
            record.groups.join(","),
            time(record.created),
            expires,
            record.last_characters.clone(),
        ]
    };
    let unreadable = |key: &RecordKey| {
        let name = HashPrefix::shown(*key).to_string();
        vec![name, "cannot be opened".to_owned()]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(list.tokens.iter().map(row))
        .chain(list.unreadable.iter().map(unreadable))
        .collect();
    table_text(&rows)
}

/// A time in UTC, for people.
fn time(seconds: i64) -> String {
    let time = DateTime::from_timestamp(seconds, 0);
    time.map_or_else(
        || seconds.to_string(),
        |time| time.to_rfc3339_opts(SecondsFormat::Secs, true),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::service_tokens::record::ServiceTokenRecord;

    fn args(name: &str, app: &str, group: &str, expires: &str) -> CreateTokenArgs {
        CreateTokenArgs {
            config: "ludgate.toml".into(),
            name: name.to_owned(),
            apps: vec![app.to_owned()],
            groups: vec![group.to_owned()],
            expires: expires.to_owned(),
        }
    }

    #[test]
    fn arguments_become_a_request_or_an_error() {
        let made = request(&args("nightly", "mlflow", "/phusers", "90d"), 1000).expect("valid");
        assert_eq!(made.expires, 1000 + 90 * 24 * 3600);
        assert_eq!((made.apps.len(), made.groups[0].as_str()), (1, "phusers"));
        for app in ["mlflow:8080", "hub/viewer", "/team/wiki", "lab:alice"] {
            request(&args("a", app, "g", "1s"), 0).expect(app);
        }
        for (name, app, group, expires, wanted) in [
            ("Nightly", "mlflow", "g", "90d", "is no name"),
            ("", "mlflow", "g", "90d", "is no name"),
            ("a", "", "g", "90d", "is no id of an app"),
            ("a", "MLflow", "g", "90d", "is no id of an app"),
            ("a", "*", "g", "90d", "is no id of an app"),
            ("a", "mlflow", "/", "90d", "is no group"),
            ("a", "mlflow", "g", "90", "is no duration"),
            ("a", "mlflow", "g", "0s", "from 1s to 730d"),
            ("a", "mlflow", "g", "731d", "from 1s to 730d"),
        ] {
            let error = request(&args(name, app, group, expires), 0).expect_err(wanted);
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }

    #[test]
    fn the_table_shows_what_a_token_is_for_and_no_hash() {
        let token = StoredToken {
            key: RecordKey([0xab; 32]),
            record: ServiceTokenRecord {
                name: "nightly".to_owned(),
                apps: vec!["mlflow".to_owned(), "lab".to_owned()],
                groups: vec!["phusers".to_owned()],
                created: 0,
                expires: 86_400,
                last_characters: "x-_9".to_owned(),
            },
        };
        let wanted = "\
NAME     APPS        GROUPS   CREATED               EXPIRES               ENDS WITH
nightly  mlflow,lab  phusers  1970-01-01T00:00:00Z  1970-01-02T00:00:00Z  x-_9
";
        let mut list = TokenList {
            tokens: vec![token],
            unreadable: Vec::new(),
        };
        assert_eq!(table(&list, 1), wanted);
        assert!(table(&list, 86_400).contains("expired"));
        list.unreadable.push(RecordKey([0xcd; 32]));
        let table = table(&list, 1);
        let last = table.lines().last().expect("a line");
        assert_eq!(last, "sha256:cdcdcdcdcdcdcdcd  cannot be opened");
    }
}
